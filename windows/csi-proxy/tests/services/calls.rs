//! The test cases of each call, from `calls.tsv`. The columns are:
//!
//! - the names of the call in all versions that have it
//! - its fields
//! - a part of the response in protobuf's text form without spaces
//! - the primitive operation of the machine that fails
//! - invalid fields
//! - a part of the error for the invalid fields (`-`: no field of the call can be invalid)

type Fields = Vec<(&'static str, &'static str)>;

/// One call in all versions that have it, with all of its names.
pub(crate) struct Scenario {
    pub(crate) names: Vec<&'static str>,
    /// The fields of all versions. Each version uses those that it has.
    pub(crate) fields: Fields,
    pub(crate) answer: &'static str,
    pub(crate) fails: &'static str,
    pub(crate) refused: Option<(Fields, &'static str)>,
}

pub(crate) fn calls() -> Vec<Scenario> {
    let fields = |text: &'static str| text.split(';').filter_map(|field| field.split_once('=')).collect::<Fields>();
    let row = |line: &'static str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [names, given, answer, fails, invalid, why] = columns[..] else { panic!("{line}") };
        let refused = (why != "-").then(|| (fields(invalid), why));
        Scenario { names: names.split('|').collect(), fields: fields(given), answer, fails, refused }
    };
    include_str!("calls.tsv").lines().map(row).collect()
}

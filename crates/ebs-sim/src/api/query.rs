//! The parameters of a Query request, each of which is taken exactly once.

use std::collections::BTreeMap;
use std::ops::Bound;

use percent_encoding::percent_decode_str;

use crate::api::{Fault, Filter};
use crate::wire::refusal::{invalid_value, missing, unsupported};

/// Flat parameters, `Filter.1.Value.2=x`; what nobody takes is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Params(BTreeMap<String, String>);

impl Params {
    /// Decodes a form or a query string.
    ///
    /// # Errors
    /// `MalformedQueryString` for text that is no UTF-8 after decoding, or a parameter given twice.
    pub(crate) fn parse(form: &str) -> Result<Self, Fault> {
        let malformed = |why: String| Fault::with_status(404, "MalformedQueryString", why);
        let mut all = BTreeMap::new();
        for pair in form.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |raw: &str| {
                let raw = raw.replace('+', " ");
                percent_decode_str(&raw).decode_utf8().map(std::borrow::Cow::into_owned)
            };
            let (Ok(name), Ok(value)) = (text(name), text(value)) else {
                return Err(malformed("The query string is not UTF-8.".to_owned()));
            };
            if all.insert(name.clone(), value).is_some() {
                return Err(malformed(format!("The parameter {name} is given more than once.")));
            }
        }
        Ok(Self(all))
    }

    /// Drops what is no parameter of the call.
    pub(crate) fn drop_where(&mut self, unwanted: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| !unwanted(name));
    }

    /// All that is left, for the ledger.
    pub(crate) fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Takes a text; absent is `None`.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes a text that must be there and not empty.
    pub(crate) fn required(&mut self, name: &str) -> Result<String, Fault> {
        self.text(name).filter(|text| !text.is_empty()).ok_or_else(|| missing(name))
    }

    /// Takes a boolean.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, Fault> {
        match self.text(name) {
            None => Ok(None),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(text) => Err(invalid_value(name, &text, "true or false")),
        }
    }

    /// Takes a 32-bit integer.
    pub(crate) fn int(&mut self, name: &str) -> Result<Option<i64>, Fault> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number: Result<i32, _> = text.parse();
        number.map(|number| Some(i64::from(number))).map_err(|_| invalid_value(name, &text, "a 32-bit integer"))
    }

    /// Takes `name.1`, `name.2` …, in the order of their numbers.
    pub(crate) fn list(&mut self, name: &str) -> Vec<String> {
        self.indices(name).into_iter().filter_map(|index| self.text(&format!("{name}.{index}"))).collect()
    }

    /// Takes `Filter.1.Name`, `Filter.1.Value.1` ….
    pub(crate) fn filters(&mut self) -> Result<Vec<Filter>, Fault> {
        let mut filters = Vec::new();
        for index in self.indices("Filter") {
            let name = self.required(&format!("Filter.{index}.Name"))?;
            let values = self.list(&format!("Filter.{index}.Value"));
            filters.push(Filter { name, values });
        }
        Ok(filters)
    }

    /// Takes `prefix.1.Key`, `prefix.1.Value` … as pairs; a missing value is `None`.
    pub(crate) fn pairs(&mut self, prefix: &str) -> Result<Vec<(String, Option<String>)>, Fault> {
        let mut pairs = Vec::new();
        for index in self.indices(prefix) {
            let key = self.text(&format!("{prefix}.{index}.Key"));
            let key = key.ok_or_else(|| missing(&format!("{prefix}.{index}.Key")))?;
            pairs.push((key, self.text(&format!("{prefix}.{index}.Value"))));
        }
        Ok(pairs)
    }

    /// The numbers that follow `name.`, ascending, each once.
    pub(crate) fn indices(&self, name: &str) -> Vec<u32> {
        let prefix = format!("{name}.");
        let mut indices: Vec<u32> = self
            .below(&prefix)
            .filter_map(|key| key.strip_prefix(&prefix))
            .filter_map(|rest| rest.split('.').next())
            .filter(|index| !index.starts_with(['0', '+']))
            .filter_map(|index| index.parse().ok())
            .collect();
        indices.sort_unstable();
        indices.dedup();
        indices
    }

    /// The names that begin with a prefix; they stand together, so that nothing else is looked at.
    fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a String> {
        self.0
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .map(|(name, _)| name)
            .take_while(move |name| name.starts_with(prefix))
    }

    /// Whether there is `name` or anything below `name.`.
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name) || self.below(&format!("{name}.")).next().is_some()
    }

    /// Drops `name` and everything below `name.`.
    pub(crate) fn ignore(&mut self, name: &str) {
        let below: Vec<String> = self.below(&format!("{name}.")).cloned().collect();
        below.iter().for_each(|name| drop(self.0.remove(name)));
        self.0.remove(name);
    }

    /// Refuses a parameter that EC2 has and the simulator has not.
    ///
    /// # Errors
    /// `UnsupportedOperation` when it or anything below it is there.
    pub(crate) fn refuse(&self, name: &str) -> Result<(), Fault> {
        if self.has(name) { Err(unsupported(name)) } else { Ok(()) }
    }

    /// Ends decoding.
    ///
    /// # Errors
    /// `UnknownParameter` when something is left.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(Fault::new("UnknownParameter", format!("The parameter {name} is not recognized"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn params(form: &str) -> Params {
        Params::parse(form).unwrap()
    }

    #[test]
    fn lists_come_in_the_order_of_their_numbers() {
        let mut p = params("VolumeId.10=c&VolumeId.2=b&VolumeId.1=a");
        assert_eq!(p.list("VolumeId"), ["a", "b", "c"]);
        assert_eq!(p.finish(), Ok(()));
    }

    #[test]
    fn filters_have_a_name_and_values() {
        let mut p = params("Filter.1.Name=tag%3AA+B&Filter.1.Value.1=x%26y&Filter.1.Value.2=&Filter.2.Name=status");
        let filters = p.filters().unwrap();
        assert_eq!(filters[0], Filter { name: "tag:A B".into(), values: vec!["x&y".into(), String::new()] });
        assert_eq!(filters[1], Filter { name: "status".into(), values: vec![] });
        assert_eq!(params("Filter.1.Value.1=x").filters().unwrap_err().code, "MissingParameter");
    }

    #[test]
    fn a_parameter_that_nobody_takes_is_unknown() {
        let mut p = params("VolumeId=vol-1&Force=true");
        p.text("VolumeId");
        let refusal = p.finish().unwrap_err();
        assert_eq!(refusal.code, "UnknownParameter");
        assert!(refusal.message.contains("Force"));
    }

    #[test]
    fn a_number_or_flag_that_is_none_is_an_invalid_value() {
        for bad in ["", "x", "4.5", "2147483648", "0x10"] {
            assert_eq!(params(&format!("Size={bad}")).int("Size").unwrap_err().code, "InvalidParameterValue", "{bad}");
        }
        assert_eq!(params("Size=-8").int("Size"), Ok(Some(-8)));
        assert_eq!(params("Encrypted=yes").flag("Encrypted").unwrap_err().code, "InvalidParameterValue");
        assert_eq!(params("Encrypted=True").flag("Encrypted"), Ok(Some(true)));
    }

    #[test]
    fn a_parameter_given_twice_is_refused() {
        assert_eq!(Params::parse("Size=1&Size=2").unwrap_err().code, "MalformedQueryString");
    }

    proptest! {
        #[test]
        fn any_form_is_parsed_or_refused_without_panic(form in ".{0,200}") {
            if let Ok(mut p) = Params::parse(&form) {
                let _ = p.filters();
                let _ = p.pairs("Tag");
                let _ = p.list("VolumeId");
            }
        }
    }
}

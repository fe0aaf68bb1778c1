//! Tables in the documents that come from the code.

use std::path::Path;

/// Checks that a page of the repository has these tables, each with its name. `EBS_WRITE_DOCS=1` in the environment
/// writes them.
///
/// The lines `<!-- table of the code: NAME -->` and `<!-- end of NAME -->` mark the place of a table.
///
/// # Panics
/// If a table is missing or differs.
pub fn check(page: &str, tables: &[(&str, String)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let before = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
    let mut wanted = before.clone();
    for (name, table) in tables {
        let (begin, end) = (format!("<!-- table of the code: {name} -->\n"), format!("<!-- end of {name} -->\n"));
        let missing = || panic!("{page} has no table {name}: put {begin}{end} into it");
        let (head, rest) = wanted.split_once(&begin).unwrap_or_else(missing);
        let (_, tail) = rest.split_once(&end).unwrap_or_else(missing);
        wanted = format!("{head}{begin}{table}{end}{tail}");
    }
    if std::env::var_os("EBS_WRITE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(&path, wanted).expect("the page can be written");
    } else {
        assert!(before == wanted, "{page} differs from the code: run this test with EBS_WRITE_DOCS=1");
    }
}

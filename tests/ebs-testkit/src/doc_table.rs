//! Checks tables in the documentation that come from the code, or that must name everything in the code.

use std::path::{Path, PathBuf};

/// Checks that a page of the repository has these tables, each with its name. `EBS_WRITE_DOCS=1` in the environment
/// writes them.
///
/// The lines `<!-- table of the code: NAME -->` and `<!-- end of NAME -->` mark the place of a table.
///
/// # Panics
/// If a table is missing or differs.
pub fn check(page: &str, tables: &[(&str, String)]) {
    let before = read(page);
    let mut wanted = before.clone();
    for (name, table) in tables {
        let [head, _, tail] = split(&wanted, &format!("table of the code: {name}"), name);
        wanted = format!("{head}{table}{tail}");
    }
    if std::env::var_os("EBS_WRITE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(path_of(page), wanted).expect("the page can be written");
    } else {
        assert!(before == wanted, "{page} differs from the code: run this test with EBS_WRITE_DOCS=1");
    }
}

/// Returns the names in the first column of a table that is written by hand.
///
/// The lines `<!-- table: NAME -->` and `<!-- end of NAME -->` mark its place.
///
/// # Panics
/// If the table is missing.
pub fn names(page: &str, table: &str) -> Vec<String> {
    let text = read(page);
    let [_, table, _] = split(&text, &format!("table: {table}"), table);
    let cells = table.lines().filter_map(|row| row.split(" | ").next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn path_of(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)
}

fn read(page: &str) -> String {
    std::fs::read_to_string(path_of(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// Returns the text before the content of a table, the content, and the text after it.
fn split<'a>(text: &'a str, first: &str, name: &str) -> [&'a str; 3] {
    let (begin, end) = (format!("<!-- {first} -->\n"), format!("<!-- end of {name} -->\n"));
    let missing = || -> usize { panic!("the page has no table {name}: put {begin}{end} into it") };
    let at = text.find(&begin).map_or_else(missing, |at| at + begin.len());
    let length = text[at..].find(&end).unwrap_or_else(missing);
    [&text[..at], &text[at..at + length], &text[at + length..]]
}

//! The catalogue of behaviour, `docs/rules.md`: each rule names a test, and the test exists.

use std::path::Path;

use super::Finding;
use super::source::{Source, Tree};

const CATALOGUE: &str = "docs/rules.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let catalogue = Path::new(CATALOGUE);
    match tree.file(catalogue) {
        Some(source) => bad_rows(source, tree),
        None => vec![Finding::new(catalogue, 1, "the catalogue of rules is missing", "write it")],
    }
}

fn bad_rows(catalogue: &Source, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in catalogue.text.lines().enumerate() {
        if let Some(Err((problem, mend))) = row(line).map(|row| row.and_then(|tests| existing(&tests, tree))) {
            findings.push(Finding::new(&catalogue.path, at + 1, problem, mend));
        }
    }
    findings
}

type Bad = (String, String);

/// The tests that a row names; `None` for lines that are no row.
fn row(line: &str) -> Option<Result<Vec<String>, Bad>> {
    let line = line.trim();
    let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split(" | ").map(str::trim).collect();
    let is_head = cells.first().is_some_and(|cell| *cell == "rule" || cell.starts_with("--"));
    if is_head {
        return None;
    }
    let tests: Vec<String> = cells
        .last()
        .into_iter()
        .flat_map(|cell| cell.split('`'))
        .filter(|t| t.contains("::"))
        .map(str::to_owned)
        .collect();
    if cells.len() != 3 || tests.is_empty() || cells.iter().any(|cell| cell.is_empty()) {
        let problem = "not a row: | rule | origin | `path/to/file.rs::test` |".to_owned();
        return Some(Err((problem, "give rule, origin and at least one test in backquotes".to_owned())));
    }
    Some(Ok(tests))
}

fn existing(tests: &[String], tree: &Tree) -> Result<(), Bad> {
    for test in tests {
        let (path, name) = test.split_once("::").unwrap_or((test, ""));
        let name = name.rsplit("::").next().unwrap_or(name);
        let Some(source) = tree.file(Path::new(path)) else {
            return Err((format!("{path} does not exist"), format!("correct the path of {name}, or write the test")));
        };
        if !defines(&source.text, name) {
            return Err((format!("{path} has no test {name}"), "correct the name, or write the test".to_owned()));
        }
    }
    Ok(())
}

fn defines(text: &str, function: &str) -> bool {
    text.match_indices(&format!("fn {function}")).any(|(at, found)| {
        text[at + found.len()..].starts_with(['(', '<'])
            && (at == 0 || text[..at].ends_with(|c: char| c.is_whitespace()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(row: &str) -> Vec<String> {
        let tree = Tree { sources: vec![Source::new("crates/a/src/b.rs", "    fn blank_is_proven() {}\n")] };
        let catalogue = Source::new(CATALOGUE, &format!("# Rules\n\n| rule | origin | test |\n|---|---|---|\n{row}\n"));
        bad_rows(&catalogue, &tree)
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.problem))
            .collect()
    }

    #[test]
    fn a_row_whose_test_exists_is_fine() {
        assert!(problems("| Blank is proven. | node.md 9.3; D-31 | `crates/a/src/b.rs::blank_is_proven` |").is_empty());
        assert!(problems("| Blank is proven. | D-31 | `crates/a/src/b.rs::tests::blank_is_proven` |").is_empty());
    }

    #[test]
    fn a_row_whose_test_or_file_does_not_exist_is_found() {
        let found = problems("| Rule. | D-31 | `crates/a/src/b.rs::blank_is` |");
        assert_eq!(found, ["5: crates/a/src/b.rs has no test blank_is"]);
        let found = problems("| Rule. | D-31 | `crates/a/src/c.rs::blank_is_proven` |");
        assert_eq!(found, ["5: crates/a/src/c.rs does not exist"]);
        let second = "| Rule. | D-31 | `crates/a/src/b.rs::blank_is_proven`, `crates/a/src/b.rs::no` |";
        assert_eq!(problems(second), ["5: crates/a/src/b.rs has no test no"]);
    }

    #[test]
    fn a_row_without_test_or_origin_is_found() {
        assert_eq!(problems("| Rule. | D-31 | none |").len(), 1);
        assert_eq!(problems("| Rule. | `crates/a/src/b.rs::blank_is_proven` |").len(), 1);
    }
}

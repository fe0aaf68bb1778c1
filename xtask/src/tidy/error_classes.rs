//! Each error type of the product, or each of its variants, has a row in the table at the end of a troubleshooting
//! page, and each row belongs to an error.

use std::collections::BTreeSet;
use std::path::Path;

use super::Finding;
use super::source::{Source, Tree, code_only};

/// The pages of the driver and of the other programs.
const PAGES: [&str; 2] = ["docs/troubleshooting.md", "docs/registrar.md"];
const TABLE: (&str, &str) = ("<!-- error classes -->", "<!-- end of error classes -->");
/// Crates whose errors users of the driver never see.
const NOT_OF_THE_PRODUCT: [&str; 6] = ["ebs-sim", "ebs-testkit", "ebs-model", "ebs-torture", "ebs-vm", "go-template"];
/// Closed sets of outcomes that are not errors themselves.
const MEANINGS: [&str; 1] = ["CloudErrorKind"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let errors: Vec<(String, Vec<String>)> = tree.rust().filter(|s| is_product(s)).flat_map(errors_of).collect();
    let mut findings = Vec::new();
    let mut find = |page: &str, line, problem| {
        findings.push(Finding::new(Path::new(page), line, problem, "list each error once, with a link to its entry"));
    };
    let mut named = BTreeSet::new();
    for path in PAGES {
        let text = tree.file(Path::new(path)).map_or("", |page| page.text.as_str());
        let table = text.lines().enumerate().skip_while(|(_, line)| *line != TABLE.0);
        for (at, row) in table.take_while(|(_, line)| *line != TABLE.1).filter(|(_, line)| line.starts_with("| `")) {
            let (names, entry) = row[1..].split_once('|').unwrap_or((row, ""));
            for name in names.split('`').skip(1).step_by(2) {
                if !entry.contains("](#") {
                    find(path, at + 1, format!("{name} has no entry"));
                }
                if !named.insert(name.to_owned()) {
                    find(path, at + 1, format!("{name} is listed twice"));
                }
                if !errors.iter().any(|(error, variants)| error == name || variants.iter().any(|v| v == name)) {
                    find(path, at + 1, format!("error {name} does not exist"));
                }
            }
        }
    }
    for (error, variants) in errors.iter().filter(|(error, _)| !named.contains(error)) {
        let all = if variants.is_empty() { std::slice::from_ref(error) } else { variants };
        for name in all.iter().filter(|name| !named.contains(*name)) {
            find(PAGES[0], 1, format!("the error {name} has no entry"));
        }
    }
    findings
}

fn is_product(source: &Source) -> bool {
    let of_crate = source.path.strip_prefix("crates").ok().and_then(|rest| rest.iter().next()?.to_str());
    of_crate.is_some_and(|name| !NOT_OF_THE_PRODUCT.contains(&name)) && !source.is_test()
}

/// Returns the errors that formatted code defines outside of modules, as `crate::Type`, each with its variants. A
/// variant that only wraps another error is left out.
fn errors_of(source: &Source) -> Vec<(String, Vec<String>)> {
    let krate = source.path.iter().nth(1).map(|name| name.to_string_lossy().replace('-', "_")).unwrap_or_default();
    let mut errors: Vec<(String, Vec<String>)> = Vec::new();
    let (mut derives_error, mut is_open, mut is_transparent) = (false, false, false);
    for line in code_only(&source.text).lines() {
        if line.starts_with(|c: char| !c.is_whitespace()) {
            derives_error |= line.contains("thiserror::Error");
            is_open = false;
            let words: Vec<&str> = line.split([' ', '(', '{', '<', ';']).collect();
            if let Some(at) = words.iter().position(|word| ["enum", "struct"].contains(word)) {
                let name = words.get(at + 1).copied().unwrap_or_default();
                if derives_error || MEANINGS.contains(&name) {
                    errors.push((format!("{krate}::{name}"), Vec::new()));
                    is_open = words[at] == "enum";
                }
                derives_error = false;
            }
        } else if is_open && let Some(member) = line.strip_prefix("    ") {
            is_transparent |= member.starts_with("#[error(transparent)]");
            if member.starts_with(char::is_uppercase) {
                let name = member.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                if let Some((error, variants)) = errors.last_mut().filter(|_| !is_transparent) {
                    variants.push(format!("{error}::{name}"));
                }
                is_transparent = false;
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
        /// Why.\n#[derive(Debug, thiserror::Error)]\npub enum Why {\n    #[error(\"a {0}\")]\n    One(u8),\n\
        \u{20}   /// Two.\n    #[error(\"b\")]\n    Two {\n        a: u8,\n    },\n    #[error(transparent)]\n    Other(#[from] Other),\n}\n\
        #[derive(Debug)]\nenum NoError {\n    A,\n}\n#[derive(Debug, thiserror::Error)]\n#[error(\"x\")]\npub(crate) struct Other(u8);\n\
        pub enum CloudErrorKind {\n    NotFound(Object),\n}\n\
        #[cfg(test)]\nmod tests {\n    #[derive(thiserror::Error)]\n    enum OfTests {\n        A,\n    }\n}\n";

    /// The first row is on the first page, the others are on the second one.
    fn problems(rows: &str) -> Vec<String> {
        let page = |rows: &str| format!("### Entry\n{}\n| error | entry |\n|---|---|\n{rows}{}\n", TABLE.0, TABLE.1);
        let (first, others) = rows.split_at(rows.find('\n').map_or(0, |end| end + 1));
        let code = Source::new("crates/ebs-driver/src/a.rs", CODE);
        let sources = vec![Source::new(PAGES[0], &page(first)), Source::new(PAGES[1], &page(others)), code];
        check(&Tree { sources }).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn error_without_entry_and_entry_without_error_are_found() {
        let rest = "| `ebs_driver::Other`, `ebs_driver::CloudErrorKind` | [Entry](#entry) |\n";
        let whole = format!("| `ebs_driver::Why` | [Entry](#entry) |\n{rest}");
        assert!(problems(&whole).is_empty(), "{:?}", problems(&whole));
        let one = format!("| `ebs_driver::Why::One` | [Entry](#entry) |\n{rest}");
        assert_eq!(problems(&one), ["the error ebs_driver::Why::Two has no entry"]);
        assert!(problems(&format!("| `ebs_driver::Why::Two` | [Entry](#entry) |\n{one}")).is_empty());
        for (row, problem) in [
            ("| `ebs_driver::Why` | [Entry](#entry) |\n", "ebs_driver::Why is listed twice"),
            ("| `ebs_driver::Gone` | [Entry](#entry) |\n", "error ebs_driver::Gone does not exist"),
            ("| `ebs_driver::Why::Other` | [Entry](#entry) |\n", "error ebs_driver::Why::Other does not exist"),
        ] {
            assert_eq!(problems(&format!("{whole}{row}")), [problem]);
        }
        assert_eq!(problems(&whole.replacen("[Entry](#entry)", "", 1)), ["ebs_driver::Why has no entry"]);
        assert_eq!(problems("").len(), 4, "all errors have no entry");
    }
}

//! Every class of error has its entry in docs/troubleshooting.md: a table there names each error type of the product, or each of its variants, and
//! the entry that is for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Finding;
use super::source::{Source, Tree};

const PAGE: &str = "docs/troubleshooting.md";
const TABLE: (&str, &str) = ("<!-- error classes -->", "<!-- end of error classes -->");
/// Crates whose errors no user of the driver meets.
const NOT_OF_THE_PRODUCT: [&str; 6] = ["ebs-sim", "ebs-testkit", "ebs-model", "ebs-torture", "ebs-vm", "go-template"];
/// Closed sets of outcomes that are no errors themselves.
const MEANINGS: [&str; 1] = ["CloudErrorKind"];

/// `crate::Type`, with its variants; none: it is a struct.
type Classes = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(Path::new(PAGE)) else {
        return vec![Finding::new(Path::new(PAGE), 1, "the page is missing", "bring it back")];
    };
    let classes: Classes = tree.rust().filter(|source| is_product(source)).flat_map(classes_of).collect();
    let rows = rows(page);
    let mut findings = Vec::new();
    let mut named = BTreeSet::new();
    for (line, name, has_entry) in &rows {
        let mut find = |problem: String, mend: &str| findings.push(Finding::new(&page.path, *line, problem, mend));
        if !has_entry {
            find(format!("{name} has no entry"), "link to the entry that says what to do");
        }
        if !named.insert(name.as_str()) {
            find(format!("{name} stands here twice"), "keep one row");
        }
        let exists = classes.iter().any(|(class, variants)| {
            name.strip_prefix(class.as_str()).is_some_and(|rest| {
                rest.is_empty() || rest.strip_prefix("::").is_some_and(|variant| variants.contains(variant))
            })
        });
        if !exists {
            find(format!("there is no error {name}"), "name it as crate::Type or crate::Type::Variant");
        }
    }
    findings.extend(missing(&classes, &named).map(|name| {
        let problem = format!("the error {name} has no entry");
        Finding::new(&page.path, 1, problem, "write an entry, and name the error in the table at the end of the page")
    }));
    findings
}

fn missing<'a>(classes: &'a Classes, named: &'a BTreeSet<&str>) -> impl Iterator<Item = String> + 'a {
    classes.iter().filter(move |(class, _)| !named.contains(class.as_str())).flat_map(move |(class, variants)| {
        let all = variants.iter().map(|variant| format!("{class}::{variant}"));
        let unnamed: Vec<String> = all.filter(|name| !named.contains(name.as_str())).collect();
        if variants.is_empty() { vec![class.clone()] } else { unnamed }
    })
}

fn is_product(source: &Source) -> bool {
    let of_crate = source.path.strip_prefix("crates").ok().and_then(|rest| rest.iter().next()?.to_str());
    of_crate.is_some_and(|name| !NOT_OF_THE_PRODUCT.contains(&name)) && !source.is_test()
}

/// The errors that the table names: line, name, and whether the row links to an entry.
fn rows(page: &Source) -> Vec<(usize, String, bool)> {
    let lines = page.text.lines().enumerate();
    let table = lines.skip_while(|(_, line)| *line != TABLE.0).take_while(|(_, line)| *line != TABLE.1);
    let rows = table.filter(|(_, line)| line.starts_with("| `"));
    rows.flat_map(|(at, line)| {
        let mut cells = line.trim_matches('|').split('|');
        let (names, entry) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        let has_entry = entry.contains("](#");
        names.split('`').skip(1).step_by(2).map(move |name| (at + 1, name.to_owned(), has_entry)).collect::<Vec<_>>()
    })
    .collect()
}

/// The errors that a file of the product defines. A variant that only passes another error on is none of its own.
fn classes_of(source: &Source) -> Classes {
    // What stands inside of modules, of tests above all, is not looked at.
    let Ok(tokens) = TokenStream::from_str(&source.text) else { return Classes::new() };
    let krate = source.path.iter().nth(1).map(|name| name.to_string_lossy().replace('-', "_")).unwrap_or_default();
    let mut classes = Classes::new();
    // Whether an attribute has said that an error comes; `enum` or `struct`; and the class whose variants come.
    let (mut is_error, mut kind, mut open) = (false, None, None);
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                let attribute: String = group.stream().to_string().split_whitespace().collect();
                is_error |= attribute.starts_with("derive(") && attribute.contains("thiserror::Error");
            }
            TokenTree::Ident(word) if word == "enum" || word == "struct" => kind = Some(word.to_string()),
            TokenTree::Ident(name) if kind.is_some() => {
                let is_enum = kind.take().as_deref() == Some("enum");
                if is_error || MEANINGS.contains(&name.to_string().as_str()) {
                    let class = format!("{krate}::{name}");
                    classes.insert(class.clone(), BTreeSet::new());
                    open = is_enum.then_some(class);
                }
                is_error = false;
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                if let Some(class) = open.take() {
                    classes.insert(class, variants(group.stream()).into_iter().collect());
                }
            }
            _ => {}
        }
    }
    classes
}

fn variants(body: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let (mut is_transparent, mut is_open) = (false, true);
    for token in body {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                is_transparent |= group.stream().to_string().replace(' ', "") == "error(transparent)";
            }
            TokenTree::Ident(name) if is_open => {
                if !is_transparent {
                    found.push(name.to_string());
                }
                is_open = false;
            }
            TokenTree::Punct(mark) if mark.as_char() == ',' => (is_transparent, is_open) = (false, true),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
        /// Why.\n#[derive(Debug, thiserror::Error)]\npub enum Why {\n    #[error(\"a {0}\")]\n    One(u8),\n\
        /// Two.\n    #[error(\"b\")]\n    Two { a: u8 },\n    #[error(transparent)]\n    Other(#[from] Other),\n}\n\
        #[derive(Debug)]\nenum NoError { A }\n#[derive(Debug, thiserror::Error)]\n#[error(\"x\")]\npub(crate) struct Other(u8);\n\
        pub enum CloudErrorKind { NotFound(Object) }\n\
        #[cfg(test)]\nmod tests {\n#[derive(thiserror::Error)]\nenum OfTests { A }\n}\n";

    fn problems(rows: &str) -> Vec<String> {
        let page = format!("### Entry\n{}\n| error | entry |\n|---|---|\n{rows}{}\n", TABLE.0, TABLE.1);
        let sources = vec![Source::new(PAGE, &page), Source::new("crates/ebs-driver/src/a.rs", CODE)];
        check(&Tree { sources }).into_iter().map(|finding| finding.problem).collect()
    }

    /// Each class of error has an entry in the documentation of troubleshooting, and each entry's error is there.
    ///
    /// Rule: decisions.md 9
    #[test]
    fn an_error_without_an_entry_and_an_entry_without_an_error_are_found() {
        let rest = "| `ebs_driver::Other`, `ebs_driver::CloudErrorKind` | [Entry](#entry) |\n";
        let whole = format!("| `ebs_driver::Why` | [Entry](#entry) |\n{rest}");
        assert!(problems(&whole).is_empty(), "{:?}", problems(&whole));
        let both = "| `ebs_driver::Why::One` | [Entry](#entry) |\n| `ebs_driver::Why::Two` | [Entry](#entry) |\n";
        assert!(problems(&format!("{both}{rest}")).is_empty());
        let one = format!("| `ebs_driver::Why::One` | [Entry](#entry) |\n{rest}");
        assert_eq!(problems(&one), ["the error ebs_driver::Why::Two has no entry"]);
        for (row, problem) in [
            ("| `ebs_driver::Why` | [Entry](#entry) |\n", "ebs_driver::Why stands here twice"),
            ("| `ebs_driver::Gone` | [Entry](#entry) |\n", "there is no error ebs_driver::Gone"),
            ("| `ebs_driver::Why::Other` | [Entry](#entry) |\n", "there is no error ebs_driver::Why::Other"),
        ] {
            assert_eq!(problems(&format!("{whole}{row}")), [problem]);
        }
        assert_eq!(problems(&whole.replacen("[Entry](#entry)", "", 1)), ["ebs_driver::Why has no entry"]);
        assert_eq!(check(&Tree { sources: Vec::new() }).len(), 1);
    }
}

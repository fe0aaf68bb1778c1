//! Every class of error has its entry in the documentation: a table at the end of a program's page names each error type of the product, or each of
//! its variants, and the entry that is for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Finding;
use super::source::{Source, Tree};

/// The driver's, and those of the programs beside it.
const PAGES: [&str; 2] = ["docs/troubleshooting.md", "docs/registrar.md"];
const TABLE: (&str, &str) = ("<!-- error classes -->", "<!-- end of error classes -->");
/// Crates whose errors no user of the driver meets.
const NOT_OF_THE_PRODUCT: [&str; 6] = ["ebs-sim", "ebs-testkit", "ebs-model", "ebs-torture", "ebs-vm", "go-template"];
/// Closed sets of outcomes that are no errors themselves.
const MEANINGS: [&str; 1] = ["CloudErrorKind"];

/// `crate::Type`, with its variants; none: it is a struct.
type Classes = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let classes: Classes = tree.rust().filter(|source| is_product(source)).flat_map(classes_of).collect();
    let mut findings = Vec::new();
    let mut named = BTreeSet::new();
    for path in PAGES {
        let Some(page) = tree.file(Path::new(path)) else {
            findings.push(Finding::new(Path::new(path), 1, "the page is missing", "bring it back"));
            continue;
        };
        for row in rows(page) {
            let problems = problems(&row, &classes, &mut named);
            let finding = |(problem, mend)| Finding::new(&page.path, row.line, problem, mend);
            findings.extend(problems.into_iter().map(finding));
        }
    }
    findings.extend(missing(&classes, &named).map(|name| {
        let problem = format!("the error {name} has no entry");
        let mend = "write an entry, and name the error in the table at the end of the page";
        Finding::new(Path::new(PAGES[0]), 1, problem, mend)
    }));
    findings
}

/// What is wrong with a row, and how to mend it; its error is named then.
fn problems(row: &Row, classes: &Classes, named: &mut BTreeSet<String>) -> Vec<(String, &'static str)> {
    let Row { name, has_entry, .. } = row;
    let mut found = Vec::new();
    if !has_entry {
        found.push((format!("{name} has no entry"), "link to the entry that says what to do"));
    }
    if !named.insert(name.clone()) {
        found.push((format!("{name} stands here twice"), "keep one row"));
    }
    let exists = classes.iter().any(|(class, variants)| {
        name.strip_prefix(class.as_str()).is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix("::").is_some_and(|variant| variants.contains(variant))
        })
    });
    if !exists {
        found.push((format!("there is no error {name}"), "name it as crate::Type or crate::Type::Variant"));
    }
    found
}

fn missing<'a>(classes: &'a Classes, named: &'a BTreeSet<String>) -> impl Iterator<Item = String> + 'a {
    classes.iter().filter(move |(class, _)| !named.contains(*class)).flat_map(move |(class, variants)| {
        let all = variants.iter().map(|variant| format!("{class}::{variant}"));
        let unnamed: Vec<String> = all.filter(|name| !named.contains(name)).collect();
        if variants.is_empty() { vec![class.clone()] } else { unnamed }
    })
}

fn is_product(source: &Source) -> bool {
    let of_crate = source.path.strip_prefix("crates").ok().and_then(|rest| rest.iter().next()?.to_str());
    of_crate.is_some_and(|name| !NOT_OF_THE_PRODUCT.contains(&name)) && !source.is_test()
}

/// An error that a table names.
struct Row {
    line: usize,
    name: String,
    /// The row links to an entry.
    has_entry: bool,
}

fn rows(page: &Source) -> Vec<Row> {
    let lines = page.text.lines().enumerate();
    let table = lines.skip_while(|(_, line)| *line != TABLE.0).take_while(|(_, line)| *line != TABLE.1);
    let rows = table.filter(|(_, line)| line.starts_with("| `"));
    rows.flat_map(|(at, line)| {
        let mut cells = line.trim_matches('|').split('|');
        let (names, entry) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        let has_entry = entry.contains("](#");
        let row = move |name: &str| Row { line: at + 1, name: name.to_owned(), has_entry };
        names.split('`').skip(1).step_by(2).map(row).collect::<Vec<_>>()
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

    /// The rows stand on two pages, the first alone on the first.
    fn problems(rows: &str) -> Vec<String> {
        let page = |rows: &str| format!("### Entry\n{}\n| error | entry |\n|---|---|\n{rows}{}\n", TABLE.0, TABLE.1);
        let (first, others) = rows.split_at(rows.find('\n').map_or(0, |end| end + 1));
        let code = Source::new("crates/ebs-driver/src/a.rs", CODE);
        let sources = vec![Source::new(PAGES[0], &page(first)), Source::new(PAGES[1], &page(others)), code];
        check(&Tree { sources }).into_iter().map(|finding| finding.problem).collect()
    }

    /// Each class of error has an entry in the documentation of troubleshooting, and each entry's error is there.
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
        assert_eq!(check(&Tree { sources: Vec::new() }).len(), PAGES.len());
    }
}

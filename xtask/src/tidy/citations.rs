//! Citations of the specifications, like `node.md N-5`: the row or section exists in that file of `docs/spec`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use regex_lite::Regex;

use super::Finding;
use super::source::{Source, Tree};

pub(super) const DIRECTORY: &str = "docs/spec";
const DECISIONS: &str = "decisions.md";
/// Its own rows are called `D-1` too.
const SIDECARS: &str = "docs/spec/sidecars.md";
/// What it cites is checked where it comes from.
const GENERATED: &str = "docs/rules";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let specifications = Specifications::read(tree);
    if !specifications.rows.contains_key(DECISIONS) {
        return vec![Finding::new(Path::new(DIRECTORY), 1, "the specifications are missing", "bring them back")];
    }
    tree.sources
        .iter()
        .filter(|source| !source.path.starts_with(GENERATED))
        .flat_map(|source| unresolved(source, &specifications))
        .collect()
}

/// The ids of rows and the numbers of sections of each file, by the file's name.
type RowsByFile = BTreeMap<String, BTreeSet<String>>;

/// What can be cited, and how.
pub(super) struct Specifications {
    rows: RowsByFile,
    patterns: Patterns,
}

impl Specifications {
    pub(super) fn read(tree: &Tree) -> Self {
        Self { rows: rows_by_file(tree), patterns: Patterns::new() }
    }

    /// The rows and sections that `text` cites and that exist, each with its file's name.
    pub(super) fn cited_by(&self, text: &str) -> Vec<(String, String)> {
        let named = cited(text, text.len(), self).into_iter().map(|Cited { file, row, .. }| (file, row));
        let decisions = self.patterns.decision.find_iter(text).map(|id| (DECISIONS.to_owned(), id.as_str().to_owned()));
        let exists = |(file, row): &(String, String)| self.rows.get(file).is_some_and(|rows| rows.contains(row));
        named.chain(decisions).filter(exists).collect()
    }
}

struct Patterns {
    /// `node.md` and what stands between it and its rows.
    file: Regex,
    /// A row or section, with the place in its table or list, which nobody checks, and what leads on to the next.
    row: Regex,
    decision: Regex,
    /// A row in brackets whose file is not named, like E19 alone.
    alone: Regex,
}

impl Patterns {
    fn new() -> Self {
        let regex = |pattern| Regex::new(pattern).expect("a constant");
        Self {
            file: regex(r"\b([a-z-]+\.md)`? +"),
            row: regex(concat!(
                r"^(?:§ ?)?([A-Z]-?\d+[a-z]?|\d+(?:\.\d+)*)\b",
                r"(?: (?:row|step|item|note) \d+| (?:rows|steps) \d+(?:(?:, | and | to )\d+)*)?",
                "(, | and | to |)",
            )),
            decision: regex(r"\bD-\d+\b"),
            alone: regex(r"\(([A-CE-Z]-\d+[a-z]?|[CE]\d+)[,;)]"),
        }
    }
}

fn rows_by_file(tree: &Tree) -> RowsByFile {
    let section = Regex::new(r"^#+ (\d+(?:\.\d+)*)\b").expect("a constant");
    let row = Regex::new(r"(?:^ *[-|] +|\*\*)([A-Z]-?\d+[a-z]?)\b").expect("a constant");
    let specifications = tree.sources.iter().filter(|source| source.path.parent() == Some(Path::new(DIRECTORY)));
    specifications
        .filter_map(|source| Some((source.path.file_name()?.to_str()?.to_owned(), source)))
        .map(|(name, source)| {
            let of_line = |line| section.captures_iter(line).chain(row.captures_iter(line));
            (name, source.text.lines().flat_map(of_line).map(|found| found[1].to_owned()).collect())
        })
        .collect()
}

fn unresolved(source: &Source, specifications: &Specifications) -> Vec<Finding> {
    let Specifications { rows: files, patterns } = specifications;
    let mut findings = Vec::new();
    let lines: Vec<&str> = source.text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        // A citation may go on in the next line, behind the comment's sign.
        let next = lines.get(at + 1).map_or("", |next| next.trim_start_matches([' ', '/', '!', '#']));
        let text = format!("{line} {next}");
        let mut find =
            |problem: String, mend: &str| findings.push(Finding::new(&source.path, at + 1, problem, mend.to_owned()));
        let mut rest = (*line).to_owned();
        for Cited { file, row, place } in cited(&text, line.len(), specifications) {
            if !files[&file].contains(&row) {
                find(format!("{file} has no row or section {row}"), "cite the row that states the rule");
            }
            if let Some(cited) = rest.get(place.clone()) {
                let blank = " ".repeat(cited.len());
                rest.replace_range(place, &blank);
            }
        }
        if source.path == Path::new(SIDECARS) {
            continue;
        }
        for decision in patterns.decision.find_iter(&rest).filter(|id| !files[DECISIONS].contains(id.as_str())) {
            find(format!("{DECISIONS} has no row {}", decision.as_str()), "cite the decision that states the rule");
        }
        if !source.path.starts_with(DIRECTORY) {
            for id in patterns.alone.captures_iter(&rest) {
                find(format!("row {} of which file?", &id[1]), "ids repeat: name the file too, like `node.md N-5`");
            }
        }
    }
    findings
}

struct Cited {
    file: String,
    row: String,
    /// In bytes of the text.
    place: Range<usize>,
}

/// What `text` cites, where the citation begins within the first `end` bytes.
fn cited(text: &str, end: usize, specifications: &Specifications) -> Vec<Cited> {
    let Specifications { rows: files, patterns } = specifications;
    let mut found = Vec::new();
    for named in patterns.file.captures_iter(text) {
        let (whole, file) = (named.get(0).expect("the match"), &named[1]);
        if whole.start() >= end || !files.contains_key(file) {
            continue;
        }
        let mut at = whole.end();
        while let Some(row) = patterns.row.captures(&text[at..]) {
            let next = at + row[0].len();
            found.push(Cited { file: file.to_owned(), row: row[1].to_owned(), place: at..next });
            at = next;
            if row[2].is_empty() {
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let decisions = "# Decisions\n## 1. What we promise\n- D-1 **Drop-in.**\n- D-26 Proof.\n";
        let node = "## 9. Publish\n### 9.3 File systems\n| N-5 | M | x |\nMore. **N-12** x\n";
        let tree = Tree {
            sources: vec![
                Source::new("docs/spec/decisions.md", decisions),
                Source::new("docs/spec/node.md", node),
                Source::new("docs/spec/runtime.md", "| R-6 | H | x |\n| R-6a | M | x |\n"),
                Source::new(path, text),
            ],
        };
        check(&tree).into_iter().map(|finding| format!("{}: {}", finding.line, finding.problem)).collect()
    }

    #[test]
    fn citations_of_rows_and_sections_that_exist_are_fine() {
        for text in [
            "/// Here (`node.md` N-5).",
            "/// Rule: node.md 9.3 row 4, N-5; runtime.md R-6a, R-6; D-26",
            "as `node.md` §9 and `decisions.md` D-1, D-26 say",
            "node.md 9 rows 1, 2 and 3, N-5 and N-12",
            "//! (`node.md`\n//! N-5)",
            "the file node.md says it; other.md 77, D-1",
        ] {
            assert!(problems("crates/a/src/a.rs", text).is_empty(), "{text}");
        }
    }

    /// A citation of a row or section that the specifications do not have, or of a row without its file, fails tidy.
    // Numbers that do not exist are put in at run time, so that this file is not found itself.
    #[test]
    fn a_row_or_section_that_does_not_exist_is_found_with_its_line() {
        let text = format!("fine\n/// `node.md` N-5, N-{}.", 7);
        assert_eq!(problems("crates/a/src/a.rs", &text), ["2: node.md has no row or section N-7"]);
        let text = format!("node.md 9 row 1, 9.{}", 4);
        assert_eq!(problems("docs/differences.md", &text), ["1: node.md has no row or section 9.4"]);
        let text = format!("(`node.md`\n/// N-{})", 7);
        assert_eq!(problems("crates/a/src/a.rs", &text), ["1: node.md has no row or section N-7"]);
        let text = format!("All of D-{}.", 99);
        assert_eq!(problems("crates/a/src/a.rs", &text), [format!("1: decisions.md has no row D-{}", 99)]);
    }

    #[test]
    fn a_row_without_its_file_is_found_outside_of_the_specifications() {
        let text = format!("by hand (C{}) or not (N-{}, N-{})", 21, 5, 6);
        assert_eq!(problems("docs/a.md", &text), ["1: row C21 of which file?", "1: row N-5 of which file?"]);
        assert!(problems("docs/spec/runtime.md", &text).is_empty());
    }

    #[test]
    fn the_specifications_must_be_there() {
        assert_eq!(check(&Tree { sources: Vec::new() }).len(), 1);
    }
}

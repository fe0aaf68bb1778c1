//! The rows of the specifications that no test cites: what is not built, or not proven under the row's name.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use regex_lite::Regex;

use super::catalogue::Catalogue;
use super::page::{GENERATED, cell};
use crate::tidy::citations::{DIRECTORY, Specifications};
use crate::tidy::source::{Source, Tree};

pub(super) const FILE: &str = "open.md";

/// Of what a row says, in characters.
const LONGEST_TEXT: usize = 120;

pub(super) fn page(tree: &Tree, catalogue: &Catalogue, specifications: &Specifications) -> String {
    let cited: BTreeSet<(String, String)> =
        catalogue.rules.iter().flat_map(|rule| specifications.cited_by(&rule.origin)).collect();
    let mut text = format!(
        "{GENERATED}\n\n# Rows that no test cites\n\n\
         The rows of the [specifications](../spec/README.md), oddities and decisions, that are the origin of no rule: what they say is not built, or \
         it is proven by a test that cites a section and not the row. [W]: what is left of it only Windows can prove, and the documents say how.\n"
    );
    let for_windows = on_windows_alone(tree, specifications);
    for source in tree.sources.iter().filter(|source| source.path.parent() == Some(Path::new(DIRECTORY))) {
        let file = source.path.file_name().unwrap_or_default().to_string_lossy();
        let rows = rows(source);
        let open: Vec<&Row> = rows.iter().filter(|row| !cited.contains(&(file.to_string(), row.id.clone()))).collect();
        if open.is_empty() {
            continue;
        }
        let _ = write!(text, "\n## [{file}](../spec/{file})\n\n");
        if open.len() * 10 > rows.len() * 9 {
            let _ = writeln!(text, "{}", mostly(&rows, &open));
            continue;
        }
        text.push_str("| row | what it says |\n|---|---|\n");
        for Row { id, says } in open {
            let mark = if for_windows.contains(&(file.to_string(), id.clone())) { "[W] " } else { "" };
            let _ = writeln!(text, "| {id} | {mark}{} |", cell(says));
        }
    }
    text
}

/// The rows that the lists of what only Windows can prove name: lines of the documents that begin with a box, or with `[W]`.
fn on_windows_alone(tree: &Tree, specifications: &Specifications) -> BTreeSet<(String, String)> {
    let documents = tree.sources.iter().filter(|source| source.path.parent() == Some(Path::new("docs")));
    let mut rows = BTreeSet::new();
    for document in documents {
        let mut is_listed = false;
        for line in document.text.lines() {
            // An entry of a list goes on where the next line is indented.
            is_listed =
                line.starts_with("| ☐ |") || line.starts_with("- **[W]**") || (is_listed && line.starts_with("  "));
            if is_listed {
                rows.extend(specifications.cited_by(line));
            }
        }
    }
    rows
}

/// What to say of a file of which hardly any row is cited.
fn mostly(rows: &[Row], open: &[&Row]) -> String {
    let is_open = |row: &&Row| open.iter().any(|open| open.id == row.id);
    let cited: Vec<&str> = rows.iter().filter(|row| !is_open(row)).map(|row| row.id.as_str()).collect();
    match cited.as_slice() {
        [] => format!("None of its {} rows is cited.", rows.len()),
        cited => format!("Of its {} rows only these are cited: {}.", rows.len(), cited.join(", ")),
    }
}

struct Row {
    id: String,
    /// Its beginning.
    says: String,
}

/// The rows of tables, and the entries of lists, that begin with an id.
fn rows(source: &Source) -> Vec<Row> {
    let row = Regex::new(r"^ *([-|]) +(?:\*\*)?([A-Z]-?\d+[a-z]?)\b(?:\*\*)?(.*)").expect("a constant");
    let read = |line| {
        row.captures(line).map(|found| {
            let says = if &found[1] == "|" {
                found[3].split('|').map(str::trim).find(|cell| cell.len() > 1)
            } else {
                Some(&found[3])
            };
            Row { id: found[2].to_owned(), says: beginning(says.unwrap_or_default()) }
        })
    };
    source.text.lines().filter_map(read).collect()
}

/// The first words of `text`, without emphasis, and with its backquotes in pairs.
fn beginning(text: &str) -> String {
    let text = text.replace("**", "");
    let mut words = String::new();
    for word in text.split_whitespace() {
        if words.chars().count() + 1 + word.chars().count() > LONGEST_TEXT {
            if words.matches('`').count() % 2 == 1 {
                words.truncate(words.rfind('`').unwrap_or(0));
            }
            return format!("{} …", words.trim_end());
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rows_text_is_cut_at_a_word_and_outside_of_code() {
        assert_eq!(beginning("**Drop-in.** Same `name`"), "Drop-in. Same `name`");
        let long = format!("{} `more than that`", "word ".repeat(22));
        assert_eq!(beginning(&long), format!("{} …", "word ".repeat(22).trim_end()));
    }

    #[test]
    fn of_a_file_that_is_hardly_cited_only_the_cited_rows_are_named() {
        let rows: Vec<Row> = ["A-1", "A-2", "A-3"].map(|id| Row { id: id.to_owned(), says: String::new() }).into();
        assert_eq!(mostly(&rows, &rows.iter().collect::<Vec<_>>()), "None of its 3 rows is cited.");
        assert_eq!(mostly(&rows, &[&rows[0], &rows[2]]), "Of its 3 rows only these are cited: A-2.");
    }

    #[test]
    fn rows_of_tables_and_lists_are_read() {
        let source = Source::new(
            "docs/spec/a.md",
            "| # | sev |\n| E1 | H | Not attributed. | Better. |\n- D-4 **None** needed.\n- No.\n",
        );
        let read: Vec<String> = rows(&source).into_iter().map(|row| format!("{}: {}", row.id, row.says)).collect();
        assert_eq!(read, ["E1: Not attributed.", "D-4: None needed."]);
    }
}

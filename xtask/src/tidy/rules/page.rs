//! The pages of the catalogue as Markdown: one for each subject, and the README.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::catalogue::{Catalogue, Rule, Test};
use super::subject::{self, SUBJECTS, Subject};
use super::{DIRECTORY, Pages};

/// The README up to the list of subjects.
const INTRODUCTION: &str = include_str!("introduction.md");
pub(super) const GENERATED: &str = "<!-- Written by `cargo xtask rules` from the doc comments of the tests. -->";

/// The README and a page for each subject that has rules.
pub(super) fn of_subjects(catalogue: &Catalogue) -> Pages {
    let mut pages = Pages::new();
    let mut list = String::new();
    for subject in &SUBJECTS {
        let rules: Vec<&Rule> =
            catalogue.rules.iter().filter(|rule| subject::of(&rule.test.path) == Some(subject)).collect();
        if !rules.is_empty() {
            let _ = writeln!(list, "- [{}]({})", subject.title, subject.file);
            pages.insert(Path::new(DIRECTORY).join(subject.file), of_subject(subject, &rules));
        }
    }
    let readme = INTRODUCTION.replace("{generated}", GENERATED).replace("{subjects}\n", &list);
    pages.insert(Path::new(DIRECTORY).join("README.md"), readme);
    pages
}

fn of_subject(subject: &Subject, rules: &[&Rule]) -> String {
    let mut text = format!("{GENERATED}\n\n# {}\n", subject.title);
    for of_file in rules.chunk_by(|one, next| one.test.path == next.test.path) {
        let path = &of_file[0].test.path;
        let name = path.strip_prefix("crates").unwrap_or(path).display();
        let _ = write!(text, "\n## [{name}](../../{})\n\n| rule | origin | test |\n|---|---|---|\n", path.display());
        for rule in of_file {
            let tests = std::iter::once(&rule.test).chain(&rule.also).map(|test| test_in(path, test));
            let tests: Vec<String> = tests.collect();
            let _ = writeln!(text, "| {} | {} | {} |", cell(&rule.sentence), cell(&rule.origin), tests.join(", "));
        }
    }
    text
}

/// The test's name, with its file where that is not `path`.
fn test_in(path: &PathBuf, test: &Test) -> String {
    if test.path == *path { format!("`{}`", test.name) } else { format!("`{}::{}`", test.path.display(), test.name) }
}

/// `text` as a table's cell.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

//! A clone is self-contained: nothing in it refers to the machine or folder where it was written, or to an issue by a
//! bare number.

use super::Finding;
use super::source::{Source, Tree};

/// Assembled here, so that this file does not match.
const PLACES: [&str; 5] = [
    concat!("..", "/shared"),
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/wo", "rk/team"),
    concat!("/ro", "ot/"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources.iter().flat_map(|source| [pointers(source), bare_issues(source)].concat()).collect()
}

/// Returns bare numbers of issues, which mean nothing without the tracker.
fn bare_issues(source: &Source) -> Vec<Finding> {
    let numbered = |line: &str| {
        let line = line.to_lowercase();
        line.split("issue ").skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let lines = source.text.lines().enumerate().filter(|(_, line)| numbered(line));
    lines
        .map(|(at, _)| {
            Finding::new(
                &source.path,
                at + 1,
                "references an issue by a bare number",
                "write the reason instead, or reference another project's issue like owner/repository#12",
            )
        })
        .collect()
}

fn pointers(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        for place in PLACES.iter().filter(|place| line.contains(**place)) {
            findings.push(Finding::new(
                &source.path,
                at + 1,
                format!("references {place}, which is missing in a clone"),
                "copy the contents into the repository",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_the_machine_is_found_with_its_line() {
        let text = format!("fine\nsee {}/x\n", PLACES[1]);
        let findings = pointers(&Source::new("docs/a.md", &text));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
        assert!(pointers(&Source::new("a.md", "see node.md N-5; a network/path, /work/demo")).is_empty());
    }

    #[test]
    fn issue_by_a_bare_number_is_found() {
        let text = format!("fine\nsee Issue {} there\n", 3);
        let findings = bare_issues(&Source::new("docs/differences.md", &text));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
        assert!(
            bare_issues(&Source::new("a.md", "an issue of kubernetes/kubernetes#130300; open an issue")).is_empty()
        );
    }
}

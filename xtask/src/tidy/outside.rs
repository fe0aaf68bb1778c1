//! A clone stands on its own: nothing in it points at the machine or the folder it was written in.

use super::Finding;
use super::source::{Source, Tree};

/// Put together here, so that this file does not find itself.
const PLACES: [&str; 5] = [
    concat!("..", "/shared"),
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/wo", "rk/team"),
    concat!("/ro", "ot/"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources.iter().flat_map(pointers).collect()
}

fn pointers(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        for place in PLACES.iter().filter(|place| line.contains(**place)) {
            findings.push(Finding::new(
                &source.path,
                at + 1,
                format!("points at {place}, which a clone does not have"),
                "cite a specification by its name alone, like `node.md N-5`; copy what the repository needs into it",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_machine_is_found_with_its_line() {
        let text = format!("fine\nsee {}/x\n", PLACES[1]);
        let findings = pointers(&Source::new("docs/a.md", &text));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
        assert!(pointers(&Source::new("a.md", "see node.md N-5; a network/path, /work/demo")).is_empty());
    }
}

//! Every crate says what it is: at the head of its root file, and on the map in `ARCHITECTURE.md`.

use std::path::Path;

use super::Finding;
use super::source::Tree;
use super::workspace::Workspace;

const MAP: &str = "ARCHITECTURE.md";

pub(super) fn check(workspace: &Workspace, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &workspace.crates {
        for root in &member.roots {
            if tree.file(root).is_some_and(|source| !source.text.starts_with("//! ")) {
                findings.push(Finding::new(
                    root,
                    1,
                    format!("{} does not say what it is", member.name),
                    "start the file with a //! comment that tells its one idea",
                ));
            }
        }
        let on_map = tree.file(Path::new(MAP)).is_some_and(|map| map.text.contains(&format!("`{}`", member.name)));
        if !on_map {
            findings.push(Finding::new(
                Path::new(MAP),
                1,
                format!("the crate map lacks {}", member.name),
                "add a row: what it is and whom it may use",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::super::workspace::Member;
    use super::*;

    #[test]
    fn a_crate_without_words_or_place_on_the_map_is_found() {
        let member = Member { name: "a".to_owned(), roots: vec!["crates/a/src/lib.rs".into()], ..Member::default() };
        let workspace = Workspace { crates: vec![member], ..Workspace::default() };
        let tree = |root: &str, map: &str| Tree {
            sources: vec![Source::new("crates/a/src/lib.rs", root), Source::new(MAP, map)],
        };
        assert!(check(&workspace, &tree("//! One idea.\n", "| `a` | one idea |")).is_empty());
        assert_eq!(check(&workspace, &tree("fn a() {}\n", "| `a` | one idea |")).len(), 1);
        assert_eq!(check(&workspace, &tree("//! One idea.\n", "| `ab` |")).len(), 1);
    }
}

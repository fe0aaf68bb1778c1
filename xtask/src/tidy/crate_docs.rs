//! Every crate says what it is: at the head of its root file, and on the map in `ARCHITECTURE.md`. The files that the map
//! names are there.

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
    findings.extend(missing_files(tree));
    findings
}

/// Names of Rust files on the map, whole or from any folder on, that no file has.
fn missing_files(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.file(Path::new(MAP)) else { return Vec::new() };
    let lines = map.text.lines().enumerate();
    let spans = lines.flat_map(|(n, line)| line.split('`').skip(1).step_by(2).map(move |span| (n + 1, span)));
    let named = spans.filter(|(_, span)| span.ends_with(".rs") && !span.contains(' '));
    let missing = named.filter(|(_, span)| !tree.sources.iter().any(|source| source.path.ends_with(span)));
    let finding = |(line, span)| {
        Finding::new(
            Path::new(MAP),
            line,
            format!("the map names {span}, which is not there"),
            "name the file as it is now",
        )
    };
    missing.map(finding).collect()
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

    #[test]
    fn a_file_on_the_map_that_is_not_there_is_found() {
        let tree = |map: &str| Tree { sources: vec![Source::new("crates/a/src/b.rs", ""), Source::new(MAP, map)] };
        assert!(missing_files(&tree("`a/src/b.rs`, `b.rs`, `crates/a/src/b.rs`, `grep x.rs`, `c.md`")).is_empty());
        assert_eq!(missing_files(&tree("text\n`b.rs` and `a/b.rs`\n")).len(), 1);
    }
}

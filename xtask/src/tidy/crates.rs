//! Every crate uses the workspace's lints, has a description at the head of its root files, and a row on the map in
//! `ARCHITECTURE.md`. The files on the map exist.

use std::path::Path;

use super::Finding;
use super::source::{Source, Tree};

const MAP: &str = "ARCHITECTURE.md";

/// Crates with their own lints: some calls of Linux and Windows have no safe form.
const UNSAFE: [&str; 3] = ["csi-proxy", "ebs-mounter", "winstorage"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.sources.iter().filter(|source| source.path.ends_with("Cargo.toml"));
    let packages = manifests.filter(|manifest| manifest.text.contains("[package]"));
    packages.flat_map(|manifest| of_crate(tree, manifest)).chain(missing_files(tree)).collect()
}

fn of_crate(tree: &Tree, manifest: &Source) -> Vec<Finding> {
    let folder = manifest.path.parent().unwrap_or(Path::new(""));
    let name = manifest.text.split('"').nth(1).unwrap_or_default();
    let mut findings = Vec::new();
    let mut find = |file: &Path, problem: String, mend| findings.push(Finding::new(file, 1, problem, mend));
    if !manifest.text.contains("[lints]\nworkspace = true") && !UNSAFE.contains(&name) {
        let problem = format!("{name} does not use the workspace's lints");
        find(&manifest.path, problem, "add [lints] with workspace = true");
    }
    let is_root = |path: &Path| {
        path.starts_with(folder.join("src")) && (path.ends_with("src/lib.rs") || path.ends_with("main.rs"))
    };
    for root in tree.rust().filter(|source| is_root(&source.path) && !source.text.starts_with("//! ")) {
        find(&root.path, format!("{name} has no description"), "begin the file with a //! comment");
    }
    if !tree.file(Path::new(MAP)).is_some_and(|map| map.text.contains(&format!("`{name}`"))) {
        find(
            Path::new(MAP),
            format!("{name} is missing in the crate map"),
            "add a row with its purpose and allowed dependencies",
        );
    }
    findings
}

/// Returns names of Rust files on the map, full or partial paths, that do not exist.
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
            format!("the map names {span}, which does not exist"),
            "use the current file name",
        )
    };
    missing.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n";

    fn problems(manifest: &str, root: &str, map: &str) -> usize {
        let sources = vec![
            Source::new("crates/a/Cargo.toml", manifest),
            Source::new("crates/a/src/lib.rs", root),
            Source::new(MAP, map),
        ];
        check(&Tree { sources }).len()
    }

    #[test]
    fn crate_without_description_map_row_or_lints_is_found() {
        let (root, map) = ("//! One idea.\n", "| `a` | one idea |");
        assert_eq!(problems(MANIFEST, root, map), 0);
        assert_eq!(problems(MANIFEST, "fn a() {}\n", map), 1);
        assert_eq!(problems(MANIFEST, root, "| `ab` |"), 1);
        assert_eq!(problems("[package]\nname = \"a\"\n", root, map), 1);
        assert_eq!(problems("[package]\nname = \"winstorage\"\n", root, "`winstorage`"), 0);
    }

    #[test]
    fn missing_file_on_the_map_is_found() {
        let tree = |map: &str| Tree { sources: vec![Source::new("crates/a/src/b.rs", ""), Source::new(MAP, map)] };
        assert!(missing_files(&tree("`a/src/b.rs`, `b.rs`, `crates/a/src/b.rs`, `grep x.rs`, `c.md`")).is_empty());
        assert_eq!(missing_files(&tree("text\n`b.rs` and `a/b.rs`\n")).len(), 1);
    }
}

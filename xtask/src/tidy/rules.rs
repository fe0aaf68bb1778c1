//! The catalogue of behaviour, `docs/rules/`: the rules that stand in the doc comments of the tests, by subject, and the
//! rows of the specifications that no test cites. What stands there is what the tests say, or tidy fails.
//!
//! ```text
//! /// Of a flag given twice the last counts; maps add up.
//! ///
//! /// Rule: runtime.md 2
//! #[test]
//! ```
//!
//! The paragraph above `Rule:` is the rule, what follows `Rule:` its origin. A test that proves several rules has several such
//! pairs; other paragraphs come after them. A rule that several tests prove stands at one of them, and the others name that one:
//! ``Rule: see `of_a_flag_given_twice_the_last_counts` ``, in another file ``Rule: see `path/to/file.rs::test` ``.

mod catalogue;
mod doc_comment;
mod page;
mod subject;
mod uncited;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;

use self::catalogue::Catalogue;
use super::Finding;
use super::citations::Specifications;
use super::source::Tree;

const DIRECTORY: &str = "docs/rules";

/// The texts of the catalogue, by their paths in the workspace.
pub(super) type Pages = BTreeMap<PathBuf, String>;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    match pages(tree) {
        Ok(pages) => outdated(tree, &pages)
            .map(|path| Finding::new(&path, 1, "not what the doc comments of the tests say", "run `cargo xtask rules`"))
            .collect(),
        Err(findings) => findings,
    }
}

/// What `docs/rules` is to hold, or what is wrong with the rules that the tests state.
pub(super) fn pages(tree: &Tree) -> Result<Pages, Vec<Finding>> {
    let specifications = Specifications::read(tree);
    let catalogue = Catalogue::read(tree, &specifications)?;
    let mut pages = page::of_subjects(&catalogue);
    pages.insert(Path::new(DIRECTORY).join(uncited::FILE), uncited::page(tree, &catalogue, &specifications));
    Ok(pages)
}

/// Writes the pages that differ from the tree's, removes files that are no page, and returns the paths of both.
pub(super) fn write(root: &Path, tree: &Tree, pages: &Pages) -> anyhow::Result<Vec<PathBuf>> {
    let changed: Vec<PathBuf> = outdated(tree, pages).collect();
    std::fs::create_dir_all(root.join(DIRECTORY)).with_context(|| format!("cannot create {DIRECTORY}"))?;
    for path in &changed {
        let file = root.join(path);
        match pages.get(path) {
            Some(text) => std::fs::write(&file, text),
            None => std::fs::remove_file(&file),
        }
        .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(changed)
}

/// The paths whose text is not the page's, of files that are no page too.
fn outdated<'a>(tree: &'a Tree, pages: &'a Pages) -> impl Iterator<Item = PathBuf> + 'a {
    let there = tree.sources.iter().map(|source| &source.path).filter(|path| path.starts_with(DIRECTORY));
    let foreign = there.filter(|path| !pages.contains_key(*path));
    let differing = pages.iter().filter(|(path, text)| tree.file(path).is_none_or(|source| source.text != **text));
    differing.map(|(path, _)| path).chain(foreign).cloned()
}

#[cfg(test)]
mod tests;

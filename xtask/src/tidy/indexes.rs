//! The index of a folder lists everything in it. (`scripts/lint` checks the links.)

use std::collections::BTreeSet;
use std::path::Path;

use super::Finding;
use super::source::Tree;

const INDEXED: [&str; 2] = ["docs", "examples"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    INDEXED.iter().flat_map(|folder| left_out(tree, Path::new(folder))).collect()
}

fn left_out(tree: &Tree, folder: &Path) -> Vec<Finding> {
    let index = folder.join("README.md");
    let Some(page) = tree.file(&index) else { return Vec::new() };
    let below = tree.sources.iter().filter_map(|source| source.path.strip_prefix(folder).ok()?.iter().next()?.to_str());
    let names: BTreeSet<&str> = below.filter(|name| *name != "README.md").collect();
    let missing = names.into_iter().filter(|name| !page.text.contains(&format!("]({name}")));
    missing.map(|name| Finding::new(&index, 1, format!("{name} is missing"), "link to it")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;

    #[test]
    fn page_that_the_index_leaves_out_is_found() {
        let names = ["docs/a.md", "docs/b.md", "docs/sub/c.md"];
        let mut sources: Vec<Source> = names.iter().map(|name| Source::new(name, "# X\n")).collect();
        sources.push(Source::new("docs/README.md", "[a](a.md#x) [sub](sub/c.md)\n"));
        let found = check(&Tree { sources });
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].problem, "b.md is missing");
    }
}

//! Links of the documents, and runbooks of the alerts: the file is there, and so is the heading. Indexes leave nothing out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::Finding;
use super::source::{Source, Tree};

/// Where a line `runbook: FILE#HEADING` names a place in the repository.
const MONITORING: &str = "deploy/monitoring";

/// Each file or folder right below the folder is linked from its `README.md`.
const INDEXED: [&str; 2] = ["docs", "examples"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let places = Places::read(tree);
    let of_pages = tree.sources.iter().filter(|source| is_page(&source.path)).flat_map(|source| {
        let links = links(source);
        links.into_iter().filter_map(|link| places.problem(source, link.0, &link.1)).collect::<Vec<_>>()
    });
    let alerts = tree.sources.iter().filter(|source| source.path.starts_with(MONITORING));
    let of_alerts = alerts.flat_map(|source| {
        let lines = source.text.lines().enumerate();
        let named = lines.filter_map(|(at, line)| Some((at + 1, line.trim().strip_prefix("runbook: ")?.to_owned())));
        // From the root, not from the file.
        let from_root = Source { path: "alerts".into(), text: String::new() };
        let problems = named.filter_map(|(line, target)| places.problem(&from_root, line, &target));
        problems.map(|finding| Finding { file: source.path.clone(), ..finding }).collect::<Vec<_>>()
    });
    of_pages.chain(of_alerts).chain(INDEXED.iter().flat_map(|folder| left_out(tree, Path::new(folder)))).collect()
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// What is right below the folder and not linked from its index.
fn left_out(tree: &Tree, folder: &Path) -> Vec<Finding> {
    let index = folder.join("README.md");
    let Some(page) = tree.file(&index) else { return Vec::new() };
    let linked: BTreeSet<PathBuf> = links(page)
        .into_iter()
        .map(|(_, target)| resolved(&index, target.split('#').next().unwrap_or_default()))
        // A link to a page of a folder is one to the folder.
        .flat_map(|path| path.ancestors().map(Path::to_owned).collect::<Vec<_>>())
        .collect();
    let below = tree.sources.iter().filter_map(|source| source.path.strip_prefix(folder).ok()?.iter().next());
    let below: BTreeSet<PathBuf> = below.map(|name| folder.join(name)).filter(|path| *path != index).collect();
    let missing = below.difference(&linked);
    missing
        .map(|path| Finding::new(&index, 1, format!("it leaves out {}", path.display()), "link to it, for its readers"))
        .collect()
}

/// What a link can lead to.
struct Places {
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
    /// The headings of each page, as links name them.
    headings: BTreeMap<PathBuf, BTreeSet<String>>,
}

impl Places {
    fn read(tree: &Tree) -> Self {
        let files: BTreeSet<PathBuf> = tree.sources.iter().map(|source| source.path.clone()).collect();
        let folders = files.iter().flat_map(|file| file.ancestors().skip(1).map(Path::to_owned)).collect();
        let pages = tree.sources.iter().filter(|source| is_page(&source.path));
        let headings = pages.map(|source| (source.path.clone(), headings(&source.text))).collect();
        Self { files, folders, headings }
    }

    fn problem(&self, from: &Source, line: usize, target: &str) -> Option<Finding> {
        if ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
            return None;
        }
        let (path, heading) = target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
        let file = if path.is_empty() { from.path.clone() } else { resolved(&from.path, path) };
        let find = |problem: String, mend: &str| Some(Finding::new(&from.path, line, problem, mend));
        if !self.files.contains(&file) && !self.folders.contains(&file) {
            return find(format!("there is no {}", file.display()), "link to a file of this repository");
        }
        let heading = heading?;
        if self.headings.get(&file).is_none_or(|headings| !headings.contains(heading)) {
            return find(format!("{} has no heading #{heading}", file.display()), "link to a heading that is there");
        }
        None
    }
}

/// `target` as `file` names it, without `.` and `..`.
fn resolved(file: &Path, target: &str) -> PathBuf {
    let mut path = file.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}

/// The lines of a page outside of its blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        (!inside && !is_fence).then_some((at + 1, line))
    })
}

/// Where the links of a page lead, each with its line.
fn links(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in prose(&source.text) {
        // What stands in backticks is no link.
        let outside: Vec<&str> = text.split('`').step_by(2).collect();
        for part in outside.join("`").split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push((line, target.trim_start_matches('<').trim_end_matches('>').to_owned()));
            }
        }
    }
    found
}

/// The names under which links reach the headings of a page.
fn headings(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for (_, line) in prose(text) {
        let marks = line.chars().take_while(|c| *c == '#').count();
        if !(1..=6).contains(&marks) || !line[marks..].starts_with(' ') {
            continue;
        }
        let name = heading_name(line[marks..].trim());
        let count = seen.entry(name.clone()).or_insert(0);
        all.insert(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    all
}

/// As GitHub names a heading: small letters, hyphens for spaces, and nothing else but digits and underscores.
fn heading_name(heading: &str) -> String {
    // Of a link its text counts.
    let mut parts = heading.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    let kept = text.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let other = "# Other page\n## Two words, one_more: `code`\n## Again\n## Again\n```sh\n# no heading\n```\n";
        let tree = Tree {
            sources: vec![
                Source::new("docs/other.md", other),
                Source::new("deploy/a/b.json", "{}"),
                Source::new("docs/page.md", text),
            ],
        };
        check(&tree).into_iter().map(|finding| format!("{}: {}", finding.line, finding.problem)).collect()
    }

    /// A link to a file or heading that is not there, and a runbook that names none, fail tidy.
    #[test]
    fn a_link_to_a_file_or_heading_that_is_not_there_is_found() {
        assert_eq!(problems("# A\n[x](gone.md)"), ["2: there is no docs/gone.md"]);
        assert_eq!(problems("[x](other.md#gone) [y](other.md)"), ["1: docs/other.md has no heading #gone"]);
        assert_eq!(problems("[x](other.md#no-heading)"), ["1: docs/other.md has no heading #no-heading"]);
        assert_eq!(problems("[x](#gone)"), ["1: docs/page.md has no heading #gone"]);
        assert_eq!(problems("[x](../deploy/c)"), ["1: there is no deploy/c"]);
        for fine in [
            "[x](other.md#two-words-one_more-code) [y](other.md#again-1) [z](./other.md#other-page)",
            "# Here\n[x](#here) [y](../deploy/a) [z](../deploy/a/b.json) [w](https://example.com/#x)",
            "`[x](gone.md)` and\n```text\n[x](gone.md)\n```\n",
        ] {
            assert!(problems(fine).is_empty(), "{fine}: {:?}", problems(fine));
        }
    }

    #[test]
    fn a_runbook_is_named_from_the_root() {
        let alerts = "a:\n  runbook: docs/other.md#here\n  runbook: docs/gone.md\n";
        let sources =
            vec![Source::new("docs/other.md", "# Here\n"), Source::new("deploy/monitoring/alerts.yaml", alerts)];
        let found = check(&Tree { sources });
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].line, found[0].problem.as_str()), (3, "there is no docs/gone.md"));
        assert_eq!(found[0].file, Path::new("deploy/monitoring/alerts.yaml"));
    }

    /// The index of the documentation leaves out no page, and that of the examples no folder.
    #[test]
    fn a_page_that_the_index_leaves_out_is_found() {
        let index = "[a](a.md#x) [rules](rules/README.md)\n";
        let names = ["docs/a.md", "docs/b.md", "docs/rules/README.md", "docs/rules/c.md"];
        let mut sources: Vec<Source> = names.iter().map(|name| Source::new(name, "# X\n")).collect();
        sources.push(Source::new("docs/README.md", index));
        let found = check(&Tree { sources });
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].problem, "it leaves out docs/b.md");
    }

    #[test]
    fn headings_are_named_as_github_names_them() {
        for (heading, name) in [
            ("What machine is this", "what-machine-is-this"),
            ("`aws_x` is 0, or `/readyz` says no", "aws_x-is-0-or-readyz-says-no"),
            ("A / B", "a--b"),
            ("1. What we [promise](x.md) here", "1-what-we-promise-here"),
        ] {
            assert_eq!(heading_name(heading), name);
        }
    }
}

//! Modules of a crate must not depend on each other in a circle. The check reads the text of the code, `crate::` and
//! `super::` in it, and compares the modules directly below a crate's root.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Finding;
use super::source::{Source, Tree, code_only};

/// A permitted circle.
struct Exception {
    /// The crate.
    of: &'static str,
    modules: &'static [&'static str],
    #[expect(dead_code, reason = "it is for whoever reads this table")]
    reason: &'static str,
}

const EXCEPTIONS: [Exception; 3] = [
    Exception {
        of: "ebs-driver",
        modules: &["parameters", "tags"],
        reason: "tags come from parameters, and parameters are refused by the rules of tags",
    },
    Exception {
        of: "ebs-model",
        modules: &[
            "calls",
            "driver",
            "network",
            "driver_process",
            "link",
            "falsified",
            "retries",
            "run",
            "sidecar",
            "world",
        ],
        reason: "one world that all of its inhabitants act on; never part of the product",
    },
    Exception {
        of: "ebs-torture",
        modules: &["trouble", "volume"],
        reason: "troubles are methods of the volume that has them; never part of the product",
    },
];

/// A module directly below the root, and the modules on which it depends with the first place of each.
type Arrows = BTreeMap<String, BTreeMap<String, (PathBuf, usize)>>;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in tree.rust() {
        let parts: Vec<&str> = source.path.iter().filter_map(|part| part.to_str()).collect();
        if let ["crates", name, "src", ..] = parts[..] {
            crates.entry(name).or_default().push(source);
        }
    }
    crates.into_iter().flat_map(|(name, sources)| in_crate(name, &sources, &EXCEPTIONS)).collect()
}

fn in_crate(name: &str, sources: &[&Source], exceptions: &[Exception]) -> Vec<Finding> {
    let arrows = arrows(name, sources);
    let mut findings = Vec::new();
    let mut found = BTreeSet::new();
    for circle in circles(&arrows) {
        let stays = exceptions.iter().any(|e| e.of == name && circle.iter().all(|m| e.modules.contains(&m.as_str())));
        if !stays {
            findings.push(finding(name, &arrows, &circle));
        }
        found.extend(circle);
    }
    for exception in exceptions.iter().filter(|e| e.of == name) {
        let unused = exception.modules.iter().filter(|module| !found.contains(**module));
        findings.extend(unused.map(|module| {
            let problem = format!("{module} of {name} is no longer in a cycle");
            Finding::new(Path::new("xtask/src/tidy/circles.rs"), 1, problem, "remove it from EXCEPTIONS")
        }));
    }
    findings
}

fn finding(name: &str, arrows: &Arrows, circle: &BTreeSet<String>) -> Finding {
    let mut steps = Vec::new();
    let mut first = None;
    for (from, to) in way_round(arrows, circle) {
        let (file, line) = &arrows[&from][&to];
        first.get_or_insert((file, *line));
        steps.push(format!("{from} uses {to} ({}:{line})", file.display()));
    }
    let (file, line) = first.expect("a circle has arrows");
    let problem = format!("modules of {name} in a cycle: {}", steps.join(", "));
    let mend = "move shared code below both, or add a necessary cycle to EXCEPTIONS in xtask/src/tidy/circles.rs";
    Finding::new(file, line, problem, mend)
}

fn arrows(name: &str, sources: &[&Source]) -> Arrows {
    let root = Path::new("crates").join(name).join("src");
    let modules: Vec<(Vec<String>, &Source)> =
        sources.iter().filter_map(|source| Some((module_of(&root, &source.path)?, *source))).collect();
    let known: BTreeSet<&str> = modules.iter().filter_map(|(path, _)| Some(path.first()?.as_str())).collect();
    let mut arrows = Arrows::new();
    for (path, source) in modules.iter().filter(|(path, _)| !path.is_empty()) {
        for (to, line) in from_root(&product_text(source), path.len()) {
            if to != path[0] && known.contains(to.as_str()) {
                let place = (source.path.clone(), line);
                arrows.entry(path[0].clone()).or_default().entry(to).or_insert(place);
            }
        }
    }
    arrows
}

/// Returns the path of a file's module; empty for a root, `None` for tests.
fn module_of(root: &Path, file: &Path) -> Option<Vec<String>> {
    let mut path: Vec<String> = file
        .strip_prefix(root)
        .ok()?
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if path.iter().any(|part| part == "tests" || part.ends_with("_tests")) {
        return None;
    }
    if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        path.pop();
    }
    Some(path)
}

/// Returns the code without its test module.
fn product_text(source: &Source) -> String {
    let code = code_only(&source.text);
    let test = code.match_indices("#[cfg(test)]").map(|(at, _)| at);
    let end = test.into_iter().find(|at| {
        let rest = code[*at..].trim_start_matches("#[cfg(test)]").trim_start();
        rest.starts_with("mod ") && rest.find(['{', ';']).is_some_and(|at| rest[at..].starts_with('{'))
    });
    code[..end.unwrap_or(code.len())].to_owned()
}

/// Returns the names from the root on, with their lines, in a module at this depth.
fn from_root(code: &str, depth: usize) -> Vec<(String, usize)> {
    let to_root = "super::".repeat(depth);
    let mut found = Vec::new();
    for path in ["crate::", &to_root] {
        for (at, _) in code.match_indices(path) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            found.extend(heads(&code[at + path.len()..]).into_iter().map(|name| (name, line)));
        }
    }
    found
}

/// Returns the first names of a path: one, or one for each member of a group in braces.
fn heads(rest: &str) -> Vec<String> {
    let head = |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = rest.strip_prefix('{') else { return vec![head(rest)] };
    let (mut depth, mut start, mut heads) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                heads.push(head(&group[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    heads
}

/// Returns the circles: groups of two or more modules that reach each other.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> = arrows.keys().map(|from| (from, reached(arrows, from))).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (from, far) in &reach {
        let with = far.iter().filter(|to| reach.get(**to).is_some_and(|back| back.contains(*from)));
        let circle: BTreeSet<String> = with.map(|to| (*to).clone()).collect();
        if !circle.is_empty() && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reached<'a>(arrows: &'a Arrows, from: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = arrows.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(arrows.get(module).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

/// Returns the shortest path from the first module of a circle back to itself.
fn way_round(arrows: &Arrows, circle: &BTreeSet<String>) -> Vec<(String, String)> {
    let start = circle.first().expect("a circle has modules");
    let mut ways = vec![vec![start.clone()]];
    loop {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().expect("a way has a start");
            for to in arrows[last].keys().filter(|to| circle.contains(*to)) {
                if to == start {
                    let ends = way.iter().skip(1).chain([start]);
                    return way.iter().cloned().zip(ends.cloned()).collect();
                }
                if !way.contains(to) {
                    longer.push(way.iter().chain([to]).cloned().collect());
                }
            }
        }
        ways = longer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAYS: [Exception; 1] = [Exception { of: "x", modules: &["a", "b"], reason: "a test" }];

    fn findings(files: &[(&str, &str)], exceptions: &[Exception]) -> Vec<String> {
        let sources: Vec<Source> =
            files.iter().map(|(file, text)| Source::new(&format!("crates/x/src/{file}"), text)).collect();
        let sources: Vec<&Source> = sources.iter().collect();
        in_crate("x", &sources, exceptions).into_iter().map(|finding| finding.problem).collect()
    }

    /// A listed circle must have a reason and still exist.
    #[test]
    fn circle_of_modules_is_found_with_the_places_of_its_edges() {
        let files = [
            ("a.rs", "use crate::b::B;"),
            ("b/deep.rs", "use std::fmt;\nuse super::super::{d, c::{C, D}};"),
            ("c.rs", "fn f() -> crate::a::A {}"),
            ("d.rs", ""),
        ];
        let expected = "modules of x in a cycle: a uses b (crates/x/src/a.rs:1), b uses c \
                        (crates/x/src/b/deep.rs:2), c uses a (crates/x/src/c.rs:1)";
        assert_eq!(findings(&files, &[]), [expected]);
    }

    #[test]
    fn comments_tests_roots_and_own_parts_make_no_edge() {
        let files = [
            ("lib.rs", "use crate::b::B;"),
            ("a.rs", "use crate::b::B;\nuse crate::a::part;"),
            (
                "b.rs",
                "//! [`crate::a`]\n#[cfg(test)]\nmod tests;\nuse super::c;\n#[cfg(test)]\nmod more {\nuse crate::a;\n}",
            ),
            ("b/part.rs", "use super::other;\npub(super) fn f() {}"),
            ("b/tests.rs", "use crate::a::A;"),
            ("b/part_tests.rs", "use crate::a::A;"),
            ("c.rs", "use other_crate::a;"),
        ];
        assert!(findings(&files, &[]).is_empty(), "{:?}", findings(&files, &[]));
    }

    #[test]
    fn exception_holds_for_its_modules_and_must_be_needed() {
        let circle = [("a.rs", "use crate::b;"), ("b.rs", "use crate::a;")];
        assert!(findings(&circle, &STAYS).is_empty());
        let larger = [("a.rs", "use crate::b;"), ("b.rs", "use crate::c;"), ("c.rs", "use crate::a;")];
        assert_eq!(findings(&larger, &STAYS).len(), 1);
        let none = [("a.rs", "use crate::b;"), ("b.rs", "")];
        assert_eq!(findings(&none, &STAYS), ["a of x is no longer in a cycle", "b of x is no longer in a cycle"]);
    }
}

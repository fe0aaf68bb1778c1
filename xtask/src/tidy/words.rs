//! Forbidden words in the code, and forbidden names of files.

use std::path::Path;

use super::Finding;
use super::source::{Source, Tree, code_only};

/// Names that do not describe the contents.
const EMPTY_NAMES: [&str; 7] = ["utils", "util", "helpers", "helper", "manager", "common", "misc"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in tree.rust() {
        findings.extend(empty_name(&source.path));
        findings.extend(attributes(source));
        findings.extend(in_product(source));
    }
    findings
}

fn empty_name(path: &Path) -> Option<Finding> {
    let part = path.iter().map(|part| part.to_string_lossy()).map(|part| part.trim_end_matches(".rs").to_owned());
    let name = part.into_iter().find(|part| EMPTY_NAMES.contains(&part.as_str()))?;
    Some(Finding::new(path, 1, format!("the name {name:?} is meaningless"), "name it after its subject"))
}

/// Returns attributes that neither product nor tests may have.
fn attributes(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in code_only(&source.text).lines().enumerate() {
        let line = line.trim();
        let mut find = |problem, mend| findings.push(Finding::new(&source.path, at + 1, problem, mend));
        if line.starts_with("#[allow(") || line.starts_with("#![allow(") {
            find("#[allow] of a lint", "use #[expect(lint, reason = \"…\")], which warns when it is no longer needed");
        }
        if line.starts_with("#[ignore") {
            find("ignored test", "run it, or let it fail and report what is missing");
        }
    }
    for (at, line) in source.text.lines().enumerate() {
        if [concat!("TO", "DO"), concat!("FIX", "ME")].iter().any(|word| line.contains(word)) {
            findings.push(Finding::new(&source.path, at + 1, "unfinished", "finish it, or open an issue"));
        }
    }
    findings
}

/// The single place of each server that chooses codes.
const CODES: [&str; 2] = ["crates/ebs-driver/src/status.rs", "crates/csi-proxy/src/status.rs"];

/// Where Linux or Windows has calls without a safe form.
const UNSAFE: [&str; 3] = ["crates/ebs-mounter", "crates/winstorage/src/real", "crates/csi-proxy/src/windows"];

fn in_product(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let code = source.product_code();
    for (at, line) in code.iter().enumerate() {
        if has_word(line, "unsafe") && !UNSAFE.iter().any(|place| source.path.starts_with(place)) {
            findings.push(Finding::new(
                &source.path,
                at + 1,
                "unsafe code outside ebs-mounter, winstorage's real host and csi-proxy's windows",
                "use a safe wrapper (rustix), or add one to these crates",
            ));
        }
    }
    if source.path.starts_with("crates") && !CODES.iter().any(|place| source.path == Path::new(place)) {
        findings.extend(names_grpc_code(&code).map(|line| {
            Finding::new(
                &source.path,
                line,
                "uses tonic::Code",
                "return an error with its meaning; status.rs of ebs-driver or csi-proxy chooses the code",
            )
        }));
    }
    findings
}

/// Returns the line of the first `tonic::Code` or `tonic::{… Code …}`.
fn names_grpc_code(code: &[String]) -> Option<usize> {
    let all = code.join("\n");
    let found = all.match_indices("tonic::").find(|(at, _)| {
        let rest = &all[at + "tonic::".len()..];
        let named = if rest.starts_with('{') { rest.split('}').next().unwrap_or(rest) } else { first_word(rest) };
        has_word(named, "Code")
    });
    found.map(|(at, _)| all[..at].matches('\n').count() + 1)
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(text)
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_called_utils_is_found() {
        assert!(empty_name(Path::new("crates/a/src/utils.rs")).is_some());
        assert!(empty_name(Path::new("crates/a/src/common/mod.rs")).is_some());
        assert_eq!(empty_name(Path::new("crates/a/src/uncommon.rs")), None);
    }

    #[test]
    fn unsafe_code_is_found_outside_of_the_permitted_places() {
        let unsafe_code = "fn a() {\n    unsafe { b() }\n}\n";
        assert_eq!(in_product(&Source::new("crates/ebs-driver/src/a.rs", unsafe_code))[0].line, 2);
        assert!(in_product(&Source::new("crates/ebs-mounter/src/a.rs", unsafe_code)).is_empty());
        assert!(in_product(&Source::new("crates/winstorage/src/real/a.rs", unsafe_code)).is_empty());
        assert_eq!(in_product(&Source::new("crates/winstorage/src/a.rs", unsafe_code)).len(), 1);
        assert!(in_product(&Source::new("crates/ebs-driver/src/a.rs", "// unsafe\nlet unsafe_code = 1;")).is_empty());
    }

    #[test]
    fn grpc_code_is_named_in_one_file_of_each_server() {
        for text in ["\nuse tonic::Code;", "\nuse tonic::{Request,\n Code};", "\nlet c = tonic::Code::Aborted;"] {
            let findings = in_product(&Source::new("crates/ebs-driver/src/node.rs", text));
            assert_eq!(findings.len(), 1, "{text}");
            assert_eq!(findings[0].line, 2, "{text}");
            assert!(in_product(&Source::new("crates/ebs-driver/src/status.rs", text)).is_empty());
        }
        let innocent = "use tonic::{Request, Response};\nenum Code {}\n";
        assert!(in_product(&Source::new("crates/ebs-driver/src/node.rs", innocent)).is_empty());
    }

    #[test]
    fn allowed_lints_ignored_tests_and_unfinished_work_are_found() {
        let text = format!("#[allow(dead_code)]\nfn a() {{}}\n#[ignore]\nfn b() {{}}\n// {}: c\n", concat!("TO", "DO"));
        let lines: Vec<_> = attributes(&Source::new("a.rs", &text)).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 3, 5]);
        assert!(attributes(&Source::new("a.rs", "let s = \"#[allow(x)]\";")).is_empty());
    }
}

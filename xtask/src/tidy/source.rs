//! The files of the workspace, and Rust text in which everything that is not code is blank.

use std::path::{Path, PathBuf};

use anyhow::Context;
use walkdir::{DirEntry, WalkDir};

/// Folders without files of ours.
const SKIPPED: [&str; 3] = ["target", ".git", ".demo"];

#[derive(Debug, Clone)]
pub(super) struct Source {
    /// Relative to the workspace.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// All text files of the workspace.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) sources: Vec<Source>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut sources = Vec::new();
        for entry in WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(is_ours) {
            let entry = entry.context("list the workspace")?;
            if !entry.file_type().is_file() {
                continue;
            }
            let bytes = std::fs::read(entry.path()).with_context(|| format!("read {}", entry.path().display()))?;
            if let Ok(text) = String::from_utf8(bytes) {
                let path = entry.path().strip_prefix(root).context("outside of the workspace")?.to_owned();
                sources.push(Source { path, text });
            }
        }
        Ok(Self { sources })
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| source.path.extension().is_some_and(|extension| extension == "rs"))
    }

    pub(super) fn file(&self, path: &Path) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }
}

fn is_ours(entry: &DirEntry) -> bool {
    !SKIPPED.iter().any(|name| entry.file_name() == *name)
}

impl Source {
    #[cfg(test)]
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.to_owned() }
    }

    /// Returns whether the whole file is a test.
    pub(super) fn is_test(&self) -> bool {
        self.path.components().any(|part| ["tests", "benches"].iter().any(|name| part.as_os_str() == *name))
            || self.path.file_stem().is_some_and(|stem| stem == "tests")
    }

    /// Returns the code of the product part: up to the first module with `#[cfg(test)]`, with blank comments and
    /// strings. Lines keep their numbers.
    pub(super) fn product_code(&self) -> Vec<String> {
        if self.is_test() {
            return Vec::new();
        }
        let code: Vec<String> = code_only(&self.text).lines().map(str::to_owned).collect();
        let end = (0..code.len()).find(|&at| starts_test_module(&code[at..])).unwrap_or(code.len());
        code[..end].to_vec()
    }
}

fn starts_test_module(code: &[String]) -> bool {
    let mut lines = code.iter().map(|line| line.trim());
    lines.next() == Some("#[cfg(test)]")
        && lines.find(|line| !line.is_empty() && !line.starts_with("#[")).is_some_and(|line| {
            ["mod ", "pub(crate) mod ", "pub(super) mod "].iter().any(|start| line.starts_with(start))
        })
}

/// Replaces the characters of comments, strings and character literals by blanks; line ends stay.
pub(super) fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = skipped_length(rest, out.chars().next_back());
        if skipped == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.extend(rest[..skipped].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[skipped..];
        }
    }
    out
}

/// Returns the length in bytes of the comment or literal at the start of `rest`; 0 for code.
fn skipped_length(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_length(rest);
    }
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !in_word && let Some(length) = raw_string_length(rest) {
        return length;
    }
    if rest.starts_with('"') {
        return quoted_length(rest, '"');
    }
    if rest.starts_with('\'') && is_character(rest) {
        return quoted_length(rest, '\'');
    }
    0
}

fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Returns the length of `r"…"`, `r#"…"#`, `br#"…"#` and so on.
fn raw_string_length(rest: &str) -> Option<usize> {
    let hashes_at = rest.find('r').filter(|at| ["", "b", "c"].contains(&&rest[..*at]))? + 1;
    let after = &rest[hashes_at..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    if !after[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = hashes_at + hashes + 1;
    Some(rest[body..].find(&end).map_or(rest.len(), |at| body + at + end.len()))
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        if c == '\\' {
            characters.next();
        } else if c == quote {
            return at + 1;
        }
    }
    rest.len()
}

/// Distinguishes `'x'` and `'\n'` from the lifetime `'x`.
fn is_character(rest: &str) -> bool {
    let mut characters = rest.chars().skip(1);
    match characters.next() {
        Some('\\') => true,
        Some(_) => characters.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        for (text, code) in [
            ("a // unsafe\nb", "a          \nb"),
            ("a /* x /* y */ \n z */ b", "a              \n      b"),
            (r#"f("un\"safe")"#, r"f(          )"),
            (r##"f(r#"un"safe"#)"##, r"f(            )"),
            ("for 'a in '\"' x", "for 'a in     x"),
            (r"c = '\'' x", r"c =      x"),
            ("str\"x\"", "str   "),
        ] {
            assert_eq!(code_only(text), code, "{text}");
        }
    }

    #[test]
    fn product_part_ends_at_the_test_module() {
        let source = Source::new("a.rs", "fn a() {}\n#[cfg(test)]\nfn helper() {}\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!(source.product_code().len(), 3);
        assert!(Source::new("tests/a.rs", "fn a() {}").product_code().is_empty());
    }
}

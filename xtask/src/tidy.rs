//! `cargo xtask tidy`: the rules of this project that the compiler does not check. It reports all findings at once,
//! each with its place and a correction.

mod circles;
mod crates;
mod error_classes;
mod indexes;
mod length;
mod outside;
mod source;
mod words;

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use source::Tree;

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Relative to the workspace.
    file: PathBuf,
    /// From 1.
    line: usize,
    problem: String,
    mend: String,
}

impl Finding {
    fn new(file: &Path, line: usize, problem: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, problem: problem.into(), mend: mend.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n    {}", self.file.display(), self.line, self.problem, self.mend)
    }
}

/// Checks everything and prints the findings. Fails if there are any.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace's directory")?;
    let tree = Tree::read(root)?;
    let mut findings = all(&tree);
    findings.sort();
    findings.dedup();
    if findings.is_empty() {
        writeln!(std::io::stdout(), "tidy: {} files, no findings", tree.sources.len())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "tidy: {} findings", findings.len())?;
    Ok(ExitCode::FAILURE)
}

fn all(tree: &Tree) -> Vec<Finding> {
    [
        circles::check(tree),
        length::check(tree),
        words::check(tree),
        outside::check(tree),
        crates::check(tree),
        indexes::check(tree),
        error_classes::check(tree),
    ]
    .concat()
}

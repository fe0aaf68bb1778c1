//! `cargo xtask tidy`: the rules of the house that no compiler knows. All findings at once, each with its place and
//! how to mend it.

mod circles;
mod crate_docs;
mod dependencies;
mod error_classes;
mod length;
mod links;
mod mermaid;
mod outside;
mod source;
mod words;
mod workspace;

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use source::Tree;
use workspace::Workspace;

/// Something against the rules of the house.
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

/// Checks everything and prints what it finds; fails when it found something.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let workspace = Workspace::read()?;
    let tree = Tree::read(&workspace.root)?;
    let mut findings = all(&workspace, &tree);
    findings.sort();
    findings.dedup();
    if findings.is_empty() {
        let (crates, files) = (workspace.crates.len(), tree.sources.len());
        writeln!(std::io::stdout(), "tidy: {crates} crates, {files} files: nothing to mend")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "tidy: {} to mend", findings.len())?;
    Ok(ExitCode::FAILURE)
}

fn all(workspace: &Workspace, tree: &Tree) -> Vec<Finding> {
    [
        dependencies::check(workspace),
        circles::check(tree),
        length::check(tree),
        words::check(tree),
        outside::check(tree),
        crate_docs::check(workspace, tree),
        links::check(tree),
        mermaid::check(tree),
        error_classes::check(tree),
    ]
    .concat()
}

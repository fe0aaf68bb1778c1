//! Checks the documents: their shell blocks run, and `deploy/monitoring` queries only metrics that the driver serves.

mod blocks;
mod monitoring;
mod promql;
mod shell;
mod values;

use std::path::{Path, PathBuf};

use anyhow::Context;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of a file of the repository.
fn text_of(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(repository().join(path)).with_context(|| format!("read {path}"))
}

/// Returns the path of a program that `scripts/setup test` has installed.
fn program(variable: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_file());
    path.with_context(|| {
        format!("{variable} names no program: run `make test`, or source what `scripts/setup test` prints")
    })
}

//! The code blocks in the documents.
//!
//! A block of shell commands begins with three backticks and `sh`, and the tests run it. If a block cannot run, the
//! line before it has a comment with the reason: `<!-- not run: it needs a node of EC2 -->`.

use std::path::Path;

use anyhow::{Context, ensure};

use crate::repository;

/// Documents that others wrote, generated documents, and the change log.
const NOT_OURS: [&str; 3] = ["xtask", "target", "CHANGELOG.md"];
const FENCE: &str = "```";
const NOT_RUN: (&str, &str) = ("<!-- not run: ", " -->");

#[derive(Debug)]
pub(crate) struct Block {
    /// Number of the block's first line in the document, from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    /// The reason why the tests do not run the block.
    pub(crate) not_run: Option<String>,
    pub(crate) text: String,
}

/// A document with its blocks.
#[derive(Debug)]
pub(crate) struct Page {
    /// Path relative to the repository.
    pub(crate) path: String,
    pub(crate) blocks: Vec<Block>,
}

/// Returns all documents of the repository that are written by hand.
pub(crate) fn pages() -> anyhow::Result<Vec<Page>> {
    let mut pages = Vec::new();
    collect(&repository(), "", &mut pages)?;
    ensure!(pages.len() >= 25, "{} pages", pages.len());
    Ok(pages)
}

fn collect(root: &Path, below: &str, pages: &mut Vec<Page>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(root.join(below)).with_context(|| format!("read {below:?}"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if name.starts_with('.') || NOT_OURS.contains(&path.as_str()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(root, &path, pages)?;
        } else if name.ends_with(".md") {
            let text = std::fs::read_to_string(entry.path()).with_context(|| format!("read {path}"))?;
            let blocks = blocks(&text).with_context(|| path.clone())?;
            pages.push(Page { path, blocks });
        }
    }
    Ok(())
}

fn blocks(text: &str) -> anyhow::Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut before = "";
    for (at, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix(FENCE) {
            match open.take() {
                Some(block) => blocks.push(block),
                None => {
                    let why = before.trim().strip_prefix(NOT_RUN.0).and_then(|rest| rest.strip_suffix(NOT_RUN.1));
                    let (language, not_run) = (language.to_owned(), why.map(str::to_owned));
                    open = Some(Block { line: at + 2, language, not_run, text: String::new() });
                }
            }
        } else if let Some(block) = &mut open {
            block.text.push_str(line);
            block.text.push('\n');
        }
        before = line;
    }
    ensure!(open.is_none(), "a block is not closed: {open:?}");
    Ok(blocks)
}

/// Only shell blocks can be marked as not run.
#[test]
fn every_code_block_has_a_language_and_every_skip_a_reason() -> anyhow::Result<()> {
    const LANGUAGES: [&str; 10] =
        ["sh", "powershell", "text", "yaml", "json", "promql", "python", "go", "mermaid", "rust"];
    for page in pages()? {
        for block in &page.blocks {
            let place = format!("{}:{}", page.path, block.line);
            ensure!(
                LANGUAGES.contains(&block.language.as_str()),
                "{place}: {:?} must be one of {LANGUAGES:?}",
                block.language
            );
            ensure!(
                block.not_run.is_none() || block.language == "sh",
                "{place}: the tests do not run {}",
                block.language
            );
            ensure!(block.not_run.as_ref().is_none_or(|why| why.len() >= 10), "{place}: say why it is not run");
        }
    }
    Ok(())
}

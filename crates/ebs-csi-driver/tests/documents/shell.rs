//! Runs the shell blocks of the documents: all blocks of a page in one shell, as a reader would run them.
//!
//! The blocks run in a new directory of links to the repository's files. `PATH` includes the results of `make build`
//! and `scripts/setup test`. The driver, the simulator and promtool are the real programs, and the real AWS CLI calls
//! the simulator. The programs in `stand-ins/` check commands that need a cluster or an AWS account, or take minutes.
//! The top of each program describes what it checks: `helm install` renders, `aws` checks its arguments against EC2's
//! own models, and `make` prints its recipe.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::{Process, ProcessSpec};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::blocks::{Page, pages};
use crate::{program, repository};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const STAND_INS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/documents/stand-ins");
/// Timeout of a page. Most pages take seconds on an idle machine.
const BOUND: Duration = Duration::from_secs(900);
/// Number of pages that run at once.
const AT_ONCE: usize = 3;
/// Prefixes of repository paths that may occur in blocks.
const FOLDERS: [&str; 10] =
    ["charts/", "crates/", "deploy/", "docs/", "examples/", "scripts/", "simulator/", "tests/", "windows/", "xtask/"];
/// Stops all processes of a page when its shell exits.
const HEAD: &str = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n";

fn path_variable() -> anyhow::Result<OsString> {
    let folder = |path: PathBuf| path.parent().map(Path::to_owned).context("a folder");
    let programs = [
        PathBuf::from(STAND_INS),
        folder(DRIVER.into())?,
        folder(program("EBS_TEST_HELM")?)?,
        folder(program("EBS_TEST_AWS_CLI")?)?,
        folder(program("EBS_TEST_PROMTOOL")?)?,
    ];
    let machine = std::env::var_os("PATH").context("PATH")?;
    Ok(std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&machine)))?)
}

/// Creates a directory of links to the repository's files, so that blocks do not write into the repository.
fn clone_of_the_repository() -> anyhow::Result<tempfile::TempDir> {
    let dir = tempfile::tempdir()?;
    for entry in std::fs::read_dir(repository())? {
        let entry = entry?;
        if entry.file_name() != ".git" {
            std::os::unix::fs::symlink(entry.path().canonicalize()?, dir.path().join(entry.file_name()))?;
        }
    }
    Ok(dir)
}

async fn bash(args: &[&str], dir: &Path) -> anyhow::Result<(bool, String)> {
    let text = |path: &Path| path.display().to_string();
    let env = BTreeMap::from([
        ("PATH".to_owned(), path_variable()?.into_string().ok().context("PATH is text")?),
        ("HOME".to_owned(), text(dir)),
        ("TMPDIR".to_owned(), text(dir)),
        // Make the tools ignore the user's configuration.
        ("AWS_CONFIG_FILE".to_owned(), text(&dir.join("no-config"))),
        ("AWS_SHARED_CREDENTIALS_FILE".to_owned(), text(&dir.join("no-credentials"))),
        ("AWS_EC2_METADATA_DISABLED".to_owned(), "true".to_owned()),
    ]);
    let mut all: Vec<OsString> = vec!["--chdir".into(), dir.into(), "bash".into()];
    all.extend(args.iter().map(OsString::from));
    let log = dir.join(".log");
    let program = PathBuf::from("/usr/bin/env");
    let mut process = Process::spawn(ProcessSpec { name: "bash".to_owned(), program, args: all, env, log })?;
    let status = process.wait(BOUND).await?;
    Ok((status.success(), process.output()?))
}

/// Runs the blocks of a page in order.
async fn run(page: Page) -> anyhow::Result<usize> {
    let mut script = HEAD.to_owned();
    let mut count = 0;
    for block in page.blocks.iter().filter(|block| block.language == "sh" && block.not_run.is_none()) {
        count += 1;
        script.push_str(&format!("echo '== {}:{}'\n{}", page.path, block.line, block.text));
    }
    if count == 0 {
        return Ok(0);
    }
    let dir = clone_of_the_repository()?;
    let (passed, said) = bash(&["-c", &script], dir.path()).await?;
    ensure!(passed, "the last of these blocks failed: {said}");
    Ok(count)
}

#[tokio::test]
async fn every_shell_block_in_the_documents_succeeds() -> anyhow::Result<()> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for page in pages()? {
        let places = Arc::clone(&places);
        running.spawn(async move {
            let _place = places.acquire().await?;
            run(page).await
        });
    }
    let (mut blocks, mut failures) = (0, Vec::new());
    while let Some(ended) = running.join_next().await {
        match ended? {
            Ok(count) => blocks += count,
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    ensure!(blocks >= 15, "{blocks} blocks ran");
    Ok(())
}

#[tokio::test]
async fn skipped_shell_block_is_valid_and_names_existing_files() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    for page in pages()? {
        for block in page.blocks.iter().filter(|block| block.not_run.is_some()) {
            let place = format!("{}:{}", page.path, block.line);
            let (is_shell, said) = bash(&["-n", "-c", &block.text], dir.path()).await?;
            ensure!(is_shell, "{place}: {said}");
            let words = block.text.split(|c: char| c.is_whitespace() || "'\"=;".contains(c));
            for word in words.map(|word| word.trim_start_matches("file://").trim_start_matches("./")) {
                let ours = FOLDERS.iter().any(|folder| word.starts_with(folder)) && !word.contains(['$', '*', '…']);
                ensure!(!ours || repository().join(word).exists(), "{place}: there is no {word}");
            }
        }
    }
    Ok(())
}

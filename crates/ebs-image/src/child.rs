//! Child processes. Only this module starts one.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Command;

/// The children only read local files, but cargo may download missing sources.
const BOUND: Duration = Duration::from_secs(600);

/// Returns the standard output of a program that has succeeded.
///
/// # Errors
/// It cannot be started, takes too long or fails. The text has its output.
pub(crate) async fn output(program: &str, args: &[&OsStr]) -> anyhow::Result<Vec<u8>> {
    #[expect(clippy::disallowed_methods, reason = "this is the one module that starts children")]
    let mut command = Command::new(program);
    command.args(args).env_clear().env("LC_ALL", "C").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    finished(program, command).await
}

/// Runs cargo in the workspace at `root`. It inherits the environment of this process, which configures the sources.
///
/// # Errors
/// As [`output`].
pub(crate) async fn cargo(root: &Path, args: &[&str]) -> anyhow::Result<String> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    #[expect(clippy::disallowed_methods, reason = "this is the one module that starts children")]
    let mut command = Command::new(&program);
    command.args(args).current_dir(root);
    String::from_utf8(finished(&program, command).await?).context("cargo's output")
}

async fn finished(program: &str, mut command: Command) -> anyhow::Result<Vec<u8>> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(BOUND, command.output()).await;
    let ended = ended.with_context(|| format!("{program} did not exit within {} s", BOUND.as_secs()))?;
    let ended = ended.with_context(|| format!("start {program}"))?;
    if !ended.status.success() {
        bail!("{program} exited with {}: {}", ended.status, String::from_utf8_lossy(&ended.stderr).trim());
    }
    Ok(ended.stdout)
}

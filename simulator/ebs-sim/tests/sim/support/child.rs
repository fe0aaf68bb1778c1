//! Child processes with an absolute program path and a clean environment. Each is killed when its owner is dropped.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};

/// Returns a command that inherits only `PATH`. Its process is killed when its owner is dropped.
#[expect(clippy::disallowed_methods, reason = "the one place of these tests that starts processes")]
fn command(program: &Path, env: &BTreeMap<String, String>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(env).stdin(Stdio::null()).kill_on_drop(true);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Runs a program to its end, for at most ten minutes.
pub(crate) async fn run<S: AsRef<OsStr>>(program: &Path, args: &[S], env: &BTreeMap<String, String>) -> Output {
    let output = command(program, env).args(args).output();
    tokio::time::timeout(Duration::from_secs(600), output).await.expect("the program ends within ten minutes").unwrap()
}

pub(crate) fn simulator<S: AsRef<OsStr>>(args: &[S]) -> Child {
    let program = Path::new(env!("CARGO_BIN_EXE_ebs-sim"));
    command(program, &BTreeMap::new()).args(args).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the path of a third-party program that `make test` has installed.
///
/// # Panics
/// When the variable does not name a file.
pub(crate) fn program(variable: &str, by_hand: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_file());
    path.unwrap_or_else(|| {
        panic!("{variable} names no file: run `make test`, which sets it, or do it by hand: {by_hand}")
    })
}

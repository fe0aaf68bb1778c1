//! Child processes: an absolute program, an environment of our own, an end in any case.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};

/// A command that inherits nothing but `PATH`, and dies with its owner.
#[expect(clippy::disallowed_methods, reason = "the one place of these tests that starts processes")]
fn command(program: &Path, env: &BTreeMap<String, String>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(env).stdin(Stdio::null()).kill_on_drop(true);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Runs a program to its end, which must come within ten minutes.
pub(crate) async fn run<S: AsRef<OsStr>>(program: &Path, args: &[S], env: &BTreeMap<String, String>) -> Output {
    let output = command(program, env).args(args).output();
    tokio::time::timeout(Duration::from_secs(600), output).await.expect("the program ends within ten minutes").unwrap()
}

/// Starts the simulator; its log is piped.
pub(crate) fn simulator<S: AsRef<OsStr>>(args: &[S]) -> Child {
    let program = Path::new(env!("CARGO_BIN_EXE_ebs-sim"));
    command(program, &BTreeMap::new()).args(args).stderr(Stdio::piped()).spawn().unwrap()
}

/// A program of somebody else that `make test` has set up.
///
/// # Panics
/// When the variable names no file, and when it is not set and `fallback` is not on the path either.
pub(crate) fn program(variable: &str, fallback: Option<&str>, by_hand: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "{variable}={} is no file", path.display());
        return path;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = fallback.and_then(|name| {
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
    });
    found.unwrap_or_else(|| {
        panic!("this test needs {variable}: run `make test`, which sets it up, or do it by hand: {by_hand}")
    })
}

/// The AWS CLI.
pub(crate) fn aws_cli() -> PathBuf {
    program("EBS_TEST_AWS_CLI", Some("aws"), "python3 -m venv DIR && DIR/bin/pip install awscli; DIR/bin/aws is it")
}

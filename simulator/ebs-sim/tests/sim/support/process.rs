//! The simulator as a process: starts it, reads its env file, and ends it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::process::Child;

use super::child::{run, simulator};
use super::until;

pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) dir: tempfile::TempDir,
}

impl Process {
    pub(crate) fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut args = arguments(dir.path());
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        Self { child: simulator(&args), dir }
    }

    pub(crate) fn env_file(&self) -> PathBuf {
        self.dir.path().join("sim env")
    }

    pub(crate) async fn env(&mut self) -> BTreeMap<String, String> {
        until("the env file", async || self.env_now().await).await
    }

    /// Returns the same variables, or `None` if no env file exists: a starting simulator removes the previous one.
    pub(crate) async fn env_now(&self) -> Option<BTreeMap<String, String>> {
        let script = format!(". '{}' && env", self.env_file().display());
        let output = run(Path::new("/bin/sh"), &["-c", &script], &BTreeMap::new()).await;
        if !output.status.success() {
            let absent = String::from_utf8_lossy(&output.stderr).contains("No such file");
            assert!(absent, "{output:?}");
            return None;
        }
        let lines = String::from_utf8(output.stdout).unwrap();
        Some(lines.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    pub(crate) async fn end(mut self) -> (ExitStatus, String) {
        let mut stderr = self.child.stderr.take().unwrap();
        let ended = async {
            let mut log = String::new();
            stderr.read_to_string(&mut log).await.unwrap();
            (self.child.wait().await.unwrap(), log)
        };
        tokio::time::timeout(Duration::from_secs(120), ended).await.expect("an end within two minutes")
    }
}

/// Returns arguments for a simulator without devices, in its own directory.
pub(crate) fn arguments(dir: &Path) -> Vec<String> {
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    ["--state-dir", &text(dir.join("state")), "--env-file", &text(dir.join("sim env")), "--devices", "none"]
        .map(str::to_owned)
        .to_vec()
}

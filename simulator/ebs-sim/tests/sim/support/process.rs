//! The simulator as a process: starts it, reads its env file, and ends it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::process::Child;

use super::child::{run, simulator};

pub(crate) struct Process {
    child: Child,
    pub(crate) dir: tempfile::TempDir,
}

impl Process {
    pub(crate) fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let mut args = ["--devices=none", "--state-dir", &text("state"), "--env-file", &text("sim env")]
            .map(str::to_owned)
            .to_vec();
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        Self { child: simulator(&args), dir }
    }

    pub(crate) fn env_file(&self) -> PathBuf {
        self.dir.path().join("sim env")
    }

    pub(crate) async fn env(&self) -> BTreeMap<String, String> {
        let file = self.env_file();
        let written = async {
            while !file.exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), written).await.expect("an env file within two minutes");
        let script = format!(". '{}' && env", file.display());
        let output = run(Path::new("/bin/sh"), &["-c", &script], &BTreeMap::new()).await;
        assert!(output.status.success(), "{output:?}");
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
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

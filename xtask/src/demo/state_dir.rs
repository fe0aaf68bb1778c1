//! The state directory: one run at a time holds it, and everything that a run can leave is found through it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use ebs_testkit::leftovers::Leftovers;
use ebs_testkit::process::Process;
use ebs_testkit::record::ProcessRecord;

/// Marks a directory as ours. Nothing is removed from a directory without it.
const MARK: &str = ".ebs-demo";
const LOCK: &str = "lock";
const PROCESSES: &str = "processes.json";
/// Directories of a run that the next one removes.
const DIRECTORIES: [&str; 3] = ["sim", "csi", "kubelet"];
/// Logs, which stay after a failure until the next run.
const LOGS: [&str; 2] = ["ebs-sim.log", "driver.log"];
/// The longest path of a unix socket.
const SOCKET_BYTES: usize = 107;

/// A held state directory, released on drop or when the process ends in any way.
#[derive(Debug)]
pub(super) struct StateDir {
    dir: PathBuf,
    _lock: File,
}

impl StateDir {
    /// Creates the directory, or takes over a previous run's.
    pub(super) fn take(dir: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("make the state directory {}", dir.display()))?;
        let dir = dir.canonicalize().with_context(|| format!("resolve {}", dir.display()))?;
        let is_ours = dir.join(MARK).exists();
        let mut entries = fs::read_dir(&dir).with_context(|| format!("read {}", dir.display()))?;
        ensure!(
            is_ours || entries.next().is_none(),
            "{} has files that are not from the demo; choose another directory with EBS_DEMO_DIR or --state-dir",
            dir.display()
        );
        let socket = dir.join("csi/csi.sock");
        ensure!(
            socket.as_os_str().len() <= SOCKET_BYTES,
            "{} exceeds {SOCKET_BYTES} bytes, the limit of a socket path; choose a shorter directory with EBS_DEMO_DIR",
            socket.display()
        );
        fs::write(dir.join(MARK), "State of `make demo`; can be removed while no demo is running\n")
            .context("mark it")?;
        let path = dir.join(LOCK);
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.with_context(|| format!("open {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                bail!(
                    "another demo is running in {}; wait for it, or choose another directory with EBS_DEMO_DIR",
                    dir.display()
                )
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {}", path.display())),
        }
    }

    /// Returns the directory's real path.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes everything that a previous run has left, here and on the machine. Returns what it has removed from the
    /// machine.
    pub(super) async fn clean(&self) -> anyhow::Result<Vec<String>> {
        let mut lines = Vec::new();
        for record in self.records()? {
            if record.kill()? {
                lines.push(format!("process {} ({})", record.pid, record.name));
            }
        }
        let found = Leftovers::clean_below(&self.dir).await?;
        if !found.is_empty() {
            lines.push(found.to_string());
        }
        let still = Leftovers::below(&self.dir)?;
        ensure!(still.is_empty(), "still present: {still}; close its users");
        for name in DIRECTORIES {
            remove(&self.dir.join(name), |path| fs::remove_dir_all(path))?;
        }
        for name in LOGS.into_iter().chain([PROCESSES]) {
            remove(&self.dir.join(name), |path| fs::remove_file(path))?;
        }
        Ok(lines)
    }

    /// Records the running processes.
    pub(super) fn record(&self, processes: &[&Process]) -> anyhow::Result<()> {
        let records: Vec<ProcessRecord> = processes.iter().map(|process| process.record()).collect::<Result<_, _>>()?;
        let new = self.dir.join(format!("{PROCESSES}.new"));
        fs::write(&new, serde_json::to_vec_pretty(&records)?).context("record the processes")?;
        fs::rename(&new, self.dir.join(PROCESSES)).context("record the processes")
    }

    fn records(&self) -> anyhow::Result<Vec<ProcessRecord>> {
        let path = self.dir.join(PROCESSES);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            text => {
                serde_json::from_slice(&text.with_context(|| format!("read {}", path.display()))?).with_context(|| {
                    format!("{} is damaged; stop the processes of the previous run and remove it", path.display())
                })
            }
        }
    }
}

fn remove(path: &Path, how: impl Fn(&Path) -> io::Result<()>) -> anyhow::Result<()> {
    match how(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_with_other_files_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "years").unwrap();
        let error = StateDir::take(dir.path()).unwrap_err().to_string();
        assert!(error.contains("not from the demo") && error.contains("EBS_DEMO_DIR"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn one_run_at_a_time_holds_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = StateDir::take(dir.path()).unwrap();
        let error = StateDir::take(dir.path()).unwrap_err().to_string();
        assert!(error.contains("another demo is running"), "{error}");
        drop(first);
        StateDir::take(dir.path()).unwrap().clean().await.unwrap();
    }

    #[test]
    fn directory_too_deep_for_a_socket_is_rejected_with_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let error = StateDir::take(&dir.path().join("x".repeat(120))).unwrap_err().to_string();
        assert!(error.contains("107") && error.contains("shorter"), "{error}");
    }
}

//! A cgroup with a memory limit, like the cgroup of a container.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Mount points of the memory controller of cgroup v1, and of cgroup v2.
const V1: &str = "/sys/fs/cgroup/memory";
const V2: &str = "/sys/fs/cgroup";
/// The time limit for the kernel to remove ended processes from the cgroup.
const FORGET: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct MemoryCgroup {
    directory: PathBuf,
    /// The file and the key of the number of kills.
    kills: &'static str,
}

impl MemoryCgroup {
    /// Creates a cgroup with a common limit of `bytes` for its processes. On cgroup v2, the kernel kills all of them at
    /// the limit, as the kubelet configures it for a container. The error names what this machine does not support.
    pub fn new(bytes: u64) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ebs-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let set = |cgroup: &Self, files: &[(&str, String)]| {
            files.iter().try_for_each(|(file, value)| {
                fs::write(cgroup.directory.join(file), value).map_err(|error| format!("{file}: {error}"))
            })
        };
        if Path::new(V1).join("memory.limit_in_bytes").exists() {
            let cgroup = Self::make(V1, &name, "memory.oom_control")?;
            return set(&cgroup, &[("memory.limit_in_bytes", bytes.to_string())]).map(|()| cgroup);
        }
        let controllers = fs::read_to_string(Path::new(V2).join("cgroup.subtree_control")).unwrap_or_default();
        if !controllers.split_whitespace().any(|controller| controller == "memory") {
            return Err(format!("{V2} has no memory controller for new cgroups"));
        }
        let cgroup = Self::make(V2, &name, "memory.events")?;
        set(&cgroup, &[("memory.max", bytes.to_string()), ("memory.oom.group", "1".to_owned())])?;
        // Fails on a machine without swap.
        let _ = set(&cgroup, &[("memory.swap.max", "0".to_owned())]);
        Ok(cgroup)
    }

    fn make(parent: &str, name: &str, kills: &'static str) -> Result<Self, String> {
        let directory = Path::new(parent).join(name);
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(Self { directory, kills })
    }

    /// Moves a process into the cgroup. Only memory that it and its children allocate from now on counts.
    pub fn add(&self, process: u32) -> io::Result<()> {
        fs::write(self.directory.join("cgroup.procs"), process.to_string())
    }

    /// Returns how many processes the kernel has killed in the cgroup because of the limit.
    pub fn kills(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.directory.join(self.kills))?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
        count.ok_or_else(|| io::Error::other(format!("no oom_kill in {text:?}")))
    }

    /// Removes the cgroup after the kernel has removed its processes, which must have ended.
    pub async fn remove(self) -> io::Result<()> {
        let until = Instant::now() + FORGET;
        loop {
            match fs::remove_dir(&self.directory) {
                Err(_) if Instant::now() < until => tokio::time::sleep(Duration::from_millis(20)).await,
                outcome => return outcome,
            }
        }
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        match fs::remove_dir(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(directory = %self.directory.display(), %error, "failed to remove the cgroup of a test");
            }
            _ => {}
        }
    }
}

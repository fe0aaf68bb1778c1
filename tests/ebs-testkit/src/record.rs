//! Identifies a process even after its end, although process ids are reused.

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

/// How long to wait until a killed process is gone.
const GONE_BOUND: Duration = Duration::from_secs(10);

/// Identifies a process by id, start time and boot. A run records its processes, so that the next run finds those that
/// a killed run has left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// The name for messages.
    pub name: String,
    pub pid: u32,
    /// When the process started, in clock ticks since boot.
    pub start_ticks: u64,
    pub boot_id: String,
}

impl ProcessRecord {
    pub fn of(name: &str, pid: u32) -> anyhow::Result<Self> {
        let start_ticks = start_ticks(pid)?;
        Ok(Self { name: name.to_owned(), pid, start_ticks, boot_id: boot_id()? })
    }

    /// Returns whether this process is still running. A zombie is not.
    pub fn is_running(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot_id)
            && start_ticks(self.pid).is_ok_and(|ticks| ticks == self.start_ticks)
    }

    /// Kills the process if it is still running, waits until it is gone, and returns whether it was running. Opens the
    /// pidfd before it compares the identity, so that it cannot kill another process with the same id.
    pub fn kill(&self) -> anyhow::Result<bool> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
        let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return Ok(false) };
        if !self.is_running() {
            return Ok(false);
        }
        rustix::process::pidfd_send_signal(&pidfd, Signal::KILL)
            .with_context(|| format!("kill {} (process {})", self.name, self.pid))?;
        let bound = Timespec::try_from(GONE_BOUND).context("convert the time limit for the kernel")?;
        let gone = rustix::event::poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&bound));
        let gone = gone.with_context(|| format!("wait for {} (process {})", self.name, self.pid))?;
        ensure!(gone > 0, "{} (process {}) still exists {GONE_BOUND:?} after it was killed", self.name, self.pid);
        Ok(true)
    }
}

/// Returns the children of a process, by id and program name. For a driver, these are the tools that it is running.
pub fn children_of(pid: u32) -> std::io::Result<Vec<(u32, String)>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread or child may end between the listing and the read.
        let listed = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        for child in listed.split_whitespace().filter_map(|id| id.parse().ok()) {
            let Ok(name) = fs::read_to_string(format!("/proc/{child}/comm")) else { continue };
            children.push((child, name.trim_end().to_owned()));
        }
    }
    Ok(children)
}

fn boot_id() -> anyhow::Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    Ok(fs::read_to_string(path).with_context(|| format!("read {path}"))?.trim().to_owned())
}

fn start_ticks(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    parse_start_ticks(&text).with_context(|| format!("{path} is not from a running process: {text:?}"))
}

/// Returns the 22nd field. The second one, the program's name in brackets, may contain anything.
fn parse_start_ticks(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?;
    (state != "Z" && state != "X").then(|| fields.nth(18)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_found_after_a_name_with_brackets_and_spaces() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 0 0";
        assert_eq!(parse_start_ticks(stat), Some(987_654));
        assert_eq!(parse_start_ticks(&stat.replace(") S", ") Z")), None);
        assert_eq!(parse_start_ticks("42"), None);
    }
}

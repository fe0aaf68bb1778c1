//! Resource usage of a process, from `/proc`.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// CPU time and memory of a process so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Usage {
    /// User and system time in seconds, including threads.
    pub(super) cpu_seconds: f64,
    /// Peak resident memory in bytes.
    pub(super) peak_memory: u64,
}

impl Usage {
    /// Reads the usage.
    ///
    /// # Errors
    /// The process is gone or `/proc` has an unexpected format.
    pub(super) fn of(pid: u32) -> anyhow::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("process {pid}"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("process {pid}"))?;
        let ticks = ticks(&stat).with_context(|| format!("times in /proc/{pid}/stat"))?;
        let peak = kib(&status, "VmHWM:").with_context(|| format!("VmHWM in /proc/{pid}/status"))?;
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Self { cpu_seconds: to_f64(ticks) / to_f64(per_second), peak_memory: peak * 1024 })
    }
}

/// Memory of a process now, in MiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Resident {
    /// All memory, including pages of the program's file, which the kernel can drop.
    pub(super) whole: f64,
    /// Memory of this process alone.
    pub(super) own: f64,
}

impl Resident {
    /// Reads the memory.
    ///
    /// # Errors
    /// The process is gone or `/proc` has an unexpected format.
    pub(super) fn of(pid: u32) -> anyhow::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("process {pid}"))?;
        let mib = |label: &str| {
            let kib = kib(&status, label).with_context(|| format!("{label} in /proc/{pid}/status"))?;
            anyhow::Ok(to_f64(kib) / 1024.0)
        };
        Ok(Self { whole: mib("VmRSS:")?, own: mib("RssAnon:")? })
    }
}

/// Returns the process that listens on a unix socket.
///
/// # Errors
/// No process listens there.
pub(super) fn listener(socket: &Path) -> anyhow::Result<u32> {
    let stream = UnixStream::connect(socket).with_context(|| format!("connect to {}", socket.display()))?;
    let peer = rustix::net::sockopt::socket_peercred(stream.as_fd()).context("read the peer of the socket")?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).context("a process id")
}

/// Returns fields 14 and 15. The second one is the program's name in brackets and may contain anything.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

fn kib(status: &str, label: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(label))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Exact up to 2^32, which is a year of CPU time, or 4 TiB in KiB.
fn to_f64(ticks: u64) -> f64 {
    f64::from(u32::try_from(ticks).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_after_a_name_with_brackets_and_blanks() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 7 5 0 0 20 0 1 0 987654 0 0";
        assert_eq!(ticks(stat), Some(12));
        assert_eq!(kib("Name:\tx\nVmHWM:\t   9000 kB\nVmRSS:\t   8000 kB\n", "VmRSS:"), Some(8000));
        assert_eq!(kib("Name:\tx\n", "VmHWM:"), None);
        let resident = Resident::of(std::process::id()).unwrap();
        assert!(resident.whole > resident.own && resident.own > 0.05, "{resident:?}");
    }

    #[test]
    fn listener_is_found_by_its_socket() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(listener(&socket).unwrap(), std::process::id());
        assert!(Usage::of(std::process::id()).unwrap().peak_memory > 0);
    }
}

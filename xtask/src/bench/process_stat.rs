//! Resource usage of a process, from `/proc`.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// The resources that a process has used so far, and its memory in MiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Usage {
    /// User and system time of all threads, in seconds.
    pub(super) cpu_seconds: f64,
    pub(super) threads: f64,
    pub(super) peak: f64,
    /// Resident memory, including pages of the program's file, which the kernel can drop.
    pub(super) resident: f64,
    /// The part of the resident memory that no other process shares.
    pub(super) own: f64,
}

impl Usage {
    pub(super) fn of(pid: u32) -> anyhow::Result<Self> {
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/{pid}/{name}")).with_context(|| format!("{name} of process {pid}"))
        };
        let (stat, status) = (read("stat")?, read("status")?);
        let number = |label: &str| number(&status, label).with_context(|| format!("{label} of process {pid}"));
        let ticks = ticks(&stat).with_context(|| format!("times of process {pid}"))?;
        Ok(Self {
            cpu_seconds: to_f64(ticks) / to_f64(rustix::param::clock_ticks_per_second()),
            threads: number("Threads:")?,
            peak: number("VmHWM:")? / 1024.0,
            resident: number("VmRSS:")? / 1024.0,
            own: number("RssAnon:")? / 1024.0,
        })
    }
}

/// Makes the peak of a process's resident memory its current resident memory.
pub(super) fn reset_peak(pid: u32) -> anyhow::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").with_context(|| format!("reset the peak memory of process {pid}"))
}

pub(super) fn listener(socket: &Path) -> anyhow::Result<u32> {
    let stream = UnixStream::connect(socket).with_context(|| format!("connect to {}", socket.display()))?;
    let peer = rustix::net::sockopt::socket_peercred(stream.as_fd()).context("read the peer of the socket")?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).context("a process id")
}

/// Returns fields 14 and 15. The second field, the program's name in brackets, may contain anything.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

fn number(status: &str, label: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Converts a number. The result is exact up to 2^32, which is a year of CPU time or a file of 4 GiB.
pub(super) fn to_f64(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

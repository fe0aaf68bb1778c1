//! What happens to the service while it works.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use ebs_types::SplitMix64;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::planted::Keeper;
use crate::world::World;

/// A fault of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The client leaves after so long.
    Leave(Duration),
    /// `kill -9` of the service after so long; `true`: of the mkfs that it runs too.
    Kill(Duration, bool),
    /// The same, so long after the service has written down that it formats.
    KillInFormat(Duration, bool),
}

impl Fault {
    pub(crate) fn any(rng: &mut SplitMix64) -> Self {
        match rng.below(100) {
            0..55 => Self::None,
            55..65 => Self::Leave(up_to(rng, 120)),
            65..80 => Self::Kill(up_to(rng, 150), rng.below(100) < 50),
            _ => Self::KillInFormat(up_to(rng, 25), rng.below(100) < 50),
        }
    }

    /// For calls that do not format.
    pub(crate) fn short(rng: &mut SplitMix64) -> Self {
        match rng.below(100) {
            0..75 => Self::None,
            75..85 => Self::Leave(up_to(rng, 20)),
            _ => Self::Kill(up_to(rng, 30), rng.below(100) < 50),
        }
    }

    /// Waits for its moment.
    pub(crate) async fn moment(self, state: &Path) {
        match self {
            Self::None => std::future::pending().await,
            Self::Leave(after) | Self::Kill(after, _) => tokio::time::sleep(after).await,
            Self::KillInFormat(after, _) => {
                while Keeper::records(state).is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                tokio::time::sleep(after).await;
            }
        }
    }
}

/// Less than so many milliseconds.
fn up_to(rng: &mut SplitMix64, millis: u64) -> Duration {
    Duration::from_micros(rng.below(millis * 1000))
}

/// Kills the service, and what it runs where that is asked for. Returns how many children that were.
pub(crate) fn kill(world: &mut World, with_children: bool) -> anyhow::Result<usize> {
    let service = world.service().map(ebs_testkit::process::Process::pid);
    // Held before their parent is gone: afterwards nothing says whose they were.
    let children: Vec<_> = match service.filter(|_| with_children) {
        Some(service) => children_of(service).into_iter().filter_map(hold).collect(),
        None => Vec::new(),
    };
    world.kill()?;
    for child in &children {
        // It may have ended by itself.
        let _ = rustix::process::pidfd_send_signal(child, Signal::KILL);
    }
    Ok(children.len())
}

fn hold(child: u32) -> Option<std::os::fd::OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(child).ok()?)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// By what the kernel tells of every process: its state and its parent stand behind its name in parentheses.
fn children_of(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let (_, behind) = stat.rsplit_once(')').unwrap_or_default();
        behind.split_whitespace().nth(1) == Some(parent.to_string().as_str())
    };
    ids.filter(is_child).collect()
}

/// Waits until no orphan works on the disk any more.
pub(crate) async fn orphans_have_ended(device: &Path, bound: Duration) -> anyhow::Result<bool> {
    let device: PathBuf = device.to_owned();
    let free = async {
        while !crate::truth::is_free(&device).context("look at the device")? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(bound, free).await {
        Ok(looked) => looked.map(|()| true),
        Err(_elapsed) => Ok(false),
    }
}

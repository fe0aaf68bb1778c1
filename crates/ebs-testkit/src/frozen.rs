//! Frozen file systems (`fsfreeze`), as a backup's hook leaves one behind when its pod is deleted too early.
//!
//! A freeze outlives the process that froze, and even the last mount of the file system: the kernel then keeps it, and with it the
//! disk, until someone mounts and thaws it.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::leftovers::mount_points;
use crate::process::{run_tool, tool};

const FSFREEZE: &str = "/usr/sbin/fsfreeze";
const BOUND: Duration = Duration::from_secs(60);
/// What the kernel answers when the file system is not frozen.
const NOT_FROZEN: &str = "Invalid argument";
/// The kernel finds a file system that is still there only by the type it was mounted as.
const TYPES: [&str; 3] = ["ext4", "ext3", "xfs"];

/// Freezes the file system that is mounted at a path.
///
/// # Errors
/// When it is frozen already, or its disk fails. The file system is not frozen by this call then.
pub async fn freeze(at: &Path) -> anyhow::Result<()> {
    tool(FSFREEZE, &["--freeze", &at.to_string_lossy()], BOUND).await.map(drop)
}

/// Thaws the file system that is mounted at a path; returns whether it was frozen.
///
/// # Errors
/// When the kernel refuses.
pub async fn thaw(at: &Path) -> anyhow::Result<bool> {
    was_frozen(tool(FSFREEZE, &["--unfreeze", &at.to_string_lossy()], BOUND).await)
}

/// Thaws the file system of a device, wherever it is mounted in this thread's mount namespace, or nowhere: then it is mounted for a
/// moment at `place`, which is made and removed. Returns whether it was frozen. Blocks while the tool runs.
///
/// # Errors
/// When the mount table cannot be read, or the kernel refuses to thaw.
pub fn thaw_device(device: &Path, place: &Path) -> anyhow::Result<bool> {
    let table = std::fs::read("/proc/thread-self/mountinfo").context("read /proc/thread-self/mountinfo")?;
    let source = format!(" {} ", device.display());
    let lines = table.split(|byte| *byte == b'\n');
    let mounts: Vec<u8> =
        lines.filter(|line| String::from_utf8_lossy(line).contains(&source)).collect::<Vec<_>>().join(&b'\n');
    if let Some(at) = mount_points(&mounts).last() {
        return thaw_now(at);
    }
    std::fs::create_dir_all(place).context("the place of a mount")?;
    // A file system that is gone is not mounted: its disk may hold anything, or answer nothing. One that is there is mounted as it is.
    let ways = [MountFlags::empty(), MountFlags::RDONLY].map(|flags| TYPES.map(|fs_type| (fs_type, flags)));
    let mut ways = ways.as_flattened().iter();
    let is_mounted = ways.any(|(fs_type, flags)| rustix::mount::mount(device, place, *fs_type, *flags, None).is_ok());
    let thawed = if is_mounted { thaw_now(place) } else { Ok(false) };
    if is_mounted {
        rustix::mount::unmount(place, UnmountFlags::DETACH).context("unmount what was mounted to thaw it")?;
    }
    std::fs::remove_dir(place).context("remove the place of a mount")?;
    thawed
}

fn thaw_now(at: &Path) -> anyhow::Result<bool> {
    was_frozen(run_tool(FSFREEZE, &["--unfreeze", &at.to_string_lossy()], BOUND))
}

fn was_frozen(outcome: anyhow::Result<String>) -> anyhow::Result<bool> {
    match outcome {
        Ok(_) => Ok(true),
        Err(error) if error.to_string().contains(NOT_FROZEN) => Ok(false),
        Err(error) => Err(error),
    }
}

//! Freezes file systems (`fsfreeze`) like a backup hook, and thaws them. A freeze outlives its process, and even the
//! last mount: the kernel keeps the file system and its disk until a process mounts and thaws it.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use ebs_testkit::leftovers::mount_points;
use ebs_testkit::process::{run_tool, tool};
use rustix::mount::{MountFlags, UnmountFlags};

const FSFREEZE: &str = "/usr/sbin/fsfreeze";
const BOUND: Duration = Duration::from_secs(60);
/// The text of the kernel's error for a file system that is not frozen.
const NOT_FROZEN: &str = "Invalid argument";
/// The kernel may keep an unmounted file system in memory. Only a mount of the same type reuses it.
const TYPES: [&str; 3] = ["ext4", "ext3", "xfs"];

/// Freezes the file system that is mounted at a path. If it returns an error, this call has not frozen it.
pub(crate) async fn freeze(at: &Path) -> anyhow::Result<()> {
    tool(FSFREEZE, &["--freeze", &at.to_string_lossy()], BOUND).await.map(drop)
}

/// Thaws the file system that is mounted at a path. Returns whether it was frozen.
pub(crate) async fn thaw(at: &Path) -> anyhow::Result<bool> {
    was_frozen(tool(FSFREEZE, &["--unfreeze", &at.to_string_lossy()], BOUND).await)
}

/// Thaws the file system of a device. If the device is not mounted in this thread's mount namespace, creates `place`,
/// mounts the device there for the thaw, and removes `place`. Returns whether the file system was frozen. Blocks while
/// the tool runs.
pub(crate) fn thaw_device(device: &Path, place: &Path) -> anyhow::Result<bool> {
    let table = std::fs::read("/proc/thread-self/mountinfo").context("read /proc/thread-self/mountinfo")?;
    let source = format!(" {} ", device.display());
    let lines = table.split(|byte| *byte == b'\n');
    let mounts: Vec<u8> =
        lines.filter(|line| String::from_utf8_lossy(line).contains(&source)).collect::<Vec<_>>().join(&b'\n');
    if let Some(at) = mount_points(&mounts).last() {
        return thaw_now(at);
    }
    std::fs::create_dir_all(place).context("create the mount point")?;
    // A mount is certain to succeed only if the kernel has kept the file system.
    let ways = [MountFlags::empty(), MountFlags::RDONLY].map(|flags| TYPES.map(|fs_type| (fs_type, flags)));
    let mut ways = ways.as_flattened().iter();
    let is_mounted = ways.any(|(fs_type, flags)| rustix::mount::mount(device, place, *fs_type, *flags, None).is_ok());
    let thawed = if is_mounted { thaw_now(place) } else { Ok(false) };
    if is_mounted {
        rustix::mount::unmount(place, UnmountFlags::DETACH).context("unmount the file system after the thaw")?;
    }
    std::fs::remove_dir(place).context("remove the mount point after the thaw")?;
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

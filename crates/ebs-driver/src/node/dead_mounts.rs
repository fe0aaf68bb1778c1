//! Dead mounts: mounts whose disk has vanished, or whose file system was shut down. The driver unmounts them when no
//! process can lose data. A device that hangs or cannot be identified does not count as vanished.

use ebs_ec2::{VolumeId, Waiters};
use ebs_mounter::{Device, MountEntry, NodePath, PathKind, UnmountError};

use super::LinuxNode;
use super::error::{Cause, NodeRefusal};
use super::in_use;
use super::owner::{self, Owner};
use super::unmount::MAX_DEPTH;
use super::wanted::ensure_wanted;

/// Unmounts mounts with vanished disks from a path, from the top down. Stops at the first other mount.
pub(super) async fn clear_vanished(
    node: &LinuxNode,
    volume: &VolumeId,
    path: &NodePath,
    waiters: &Waiters,
) -> Result<(), Cause> {
    for _ in 0..MAX_DEPTH {
        let (table, at) = owner::topmost(path).await?;
        let Some(entry) = table.topmost(&at) else { return Ok(()) };
        let Ok(Owner::Vanished) = owner::owner(&node.mounter, entry, volume).await else { return Ok(()) };
        ensure_wanted(waiters, "unmounting")?;
        node.mounter.unmount_top(path, entry, true).await?;
        tracing::warn!(%volume, %path, "unmounted a mount whose disk has vanished");
    }
    Err(UnmountError::Endless { path: path.as_path().to_owned(), mounts: MAX_DEPTH }.into())
}

/// Returns the evidence that the file system of a mount is dead, or `None` without evidence.
pub(super) fn evidence_of_death(entry: &MountEntry, found: &PathKind) -> Option<String> {
    match found {
        PathKind::DeadMount(error) => Some(error.clone()),
        // ext4 can still return data from memory after a shutdown, but shows the shutdown in the mount table.
        _ => {
            entry.super_options.iter().any(|word| word == "shutdown").then(|| "the kernel has shut it down".to_owned())
        }
    }
}

pub(super) fn refuse_dead(at: &NodePath, entry: &MountEntry, found: &PathKind) -> Result<(), NodeRefusal> {
    let Some(error) = evidence_of_death(entry, found) else { return Ok(()) };
    Err(NodeRefusal::DeadFileSystem { at: at.clone(), error, also: String::new() })
}

/// Unmounts a dead file system of the device from the staging path, because the kernel reads the disk again only after
/// the last unmount. Refuses while the volume is in use: a second mount would show the same dead file system.
pub(super) async fn clear_dead(
    node: &LinuxNode,
    device: &Device,
    staging: &NodePath,
    error: String,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let (_, at) = owner::topmost(staging).await?;
    let also = in_use::other_uses(node, device.number(), &at).await?;
    if !also.is_empty() {
        return Err(NodeRefusal::DeadFileSystem { at: staging.clone(), error, also }.into());
    }
    tracing::warn!(volume = %device.volume(), path = %staging, error, "unmounting the dead, unused staged file system to mount it again");
    unmount_unused(node, device, staging, waiters).await
}

/// Unmounts the device from the staging path, and makes sure that the kernel has released the file system. The caller
/// must have checked that the device is not used anywhere else.
pub(super) async fn unmount_unused(
    node: &LinuxNode,
    device: &Device,
    staging: &NodePath,
    waiters: &Waiters,
) -> Result<(), Cause> {
    for _ in 0..MAX_DEPTH {
        let (table, at) = owner::topmost(staging).await?;
        let Some(entry) = table.topmost(&at).filter(|entry| entry.device == device.number()) else {
            return ensure_released(node, device, staging).await;
        };
        ensure_wanted(waiters, "unmounting")?;
        node.mounter.unmount_top(staging, entry, false).await?;
    }
    Err(UnmountError::Endless { path: staging.as_path().to_owned(), mounts: MAX_DEPTH }.into())
}

/// Refuses while a process holds the disk. When the staging directory is removed, the kernel unmounts unused copies of
/// the mount in other namespaces, but an open file on such a copy keeps the file system alive.
async fn ensure_released(node: &LinuxNode, device: &Device, staging: &NodePath) -> Result<(), Cause> {
    let Err(held) = in_use::refuse_held(node, device.number(), true).await else { return Ok(()) };
    if staging.remove().await.is_ok() && in_use::refuse_held(node, device.number(), true).await.is_ok() {
        return Ok(());
    }
    // Return the first result, which still names the processes that hold the copies.
    Err(held)
}

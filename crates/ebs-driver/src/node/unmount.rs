//! NodeUnstageVolume and NodeUnpublishVolume: unmount everything at the path and remove the path.
//!
//! A volume is unstaged only if nothing holds its disk, because EC2 detaches it next. The driver first refuses uses
//! that its own mount table shows. Only an exclusive open of the disk detects mounts in other namespaces. The driver
//! opens the disk after removing the directory, because the removal makes the kernel unmount idle copies of the mount.

use ebs_ec2::{VolumeId, Waiters};
use ebs_mounter::{DeviceError, DeviceNumber, DeviceQuery, MountEntry, NodePath, PathKind, UnmountError};

use super::LinuxNode;
use super::error::{Cause, NodeRefusal};
use super::in_use;
use super::owner::{self, Owner};
use super::request::{Handle, VolumePath};
use super::wanted::ensure_wanted;

/// The maximum number of mounts on top of each other. A larger number can only be a mistake.
pub(super) const MAX_DEPTH: usize = 64;

/// Unmounts the staging path and removes it, unless it is a directory with files where nothing was mounted.
pub(super) async fn unstage(node: &LinuxNode, plan: &VolumePath, waiters: &Waiters) -> Result<(), Cause> {
    let found = inspect(plan).await?;
    let disk = match &plan.volume {
        Handle::Volume(volume) => disk_to_release(node, volume, &plan.path).await?,
        // No controller detaches the volume, so its disk need not be free.
        Handle::NodeLocal(_) => None,
    };
    if let Some(disk) = disk {
        let staging = plan.path.in_table().await.map_err(Cause::io("resolve the path"))?;
        in_use::refuse_other_uses(node, disk, &staging).await?;
    }
    let unmounted = found != PathKind::Missing && unmount_all(node, plan, waiters).await? > 0;
    if unmounted || inspect(plan).await? == (PathKind::Directory { empty: true }) {
        plan.path.remove().await.map_err(Cause::io("remove the staging directory"))?;
    }
    if let Some(disk) = disk {
        in_use::ensure_released(node, disk, plan, unmounted).await?;
    }
    if let Handle::Volume(volume) = &plan.volume {
        node.mounter.abandon_format(volume).await;
    }
    Ok(())
}

/// Thaws the volume that is to be unstaged, if only the staging path uses it: a tool that grows a frozen file system
/// sleeps in the kernel, and blocks the operation that NodeUnstageVolume waits for.
///
/// Cancellation: a thaw that has begun continues.
pub(super) async fn thaw_unused(node: &LinuxNode, plan: &VolumePath) {
    let Ok((table, at)) = owner::topmost(&plan.path).await else { return };
    let Some(entry) = table.topmost(&at).filter(|entry| entry.device.major != 0) else { return };
    let Ok(Owner::Volume | Owner::Silent) = owner::of_handle(&node.mounter, entry, &plan.volume).await else { return };
    if node.mounter.thaw_only_mount(entry, &plan.path).await {
        tracing::warn!(volume = %plan.volume, path = %plan.path, "thawed a frozen, unused file system while another operation was running");
    }
}

/// Unmounts the target and removes it. The target must be empty afterwards.
pub(super) async fn unpublish(node: &LinuxNode, plan: &VolumePath, waiters: &Waiters) -> Result<(), Cause> {
    if inspect(plan).await? == PathKind::Missing {
        return Ok(());
    }
    unmount_all(node, plan, waiters).await?;
    plan.path.remove().await.map_err(Cause::io("remove the target path, which must be empty"))
}

async fn inspect(plan: &VolumePath) -> Result<PathKind, Cause> {
    match plan.path.kind().await.map_err(Cause::io("examine the path"))? {
        PathKind::Symlink => Err(NodeRefusal::Symlink.into()),
        found => Ok(found),
    }
}

/// Returns the disk that must be free when the volume is unstaged: the disk that is mounted at the path, or else the
/// volume's disk. Returns `None` when this machine no longer has the disk.
async fn disk_to_release(node: &LinuxNode, volume: &VolumeId, path: &NodePath) -> Result<Option<DeviceNumber>, Cause> {
    let (table, at) = owner::topmost(path).await?;
    if let Some(entry) = table.topmost(&at) {
        return match owner::owner(&node.mounter, entry, volume).await? {
            Owner::Volume | Owner::Silent => Ok(Some(number_of(node, entry).await?)),
            Owner::Vanished => Ok(None),
            Owner::Other(found) => Err(NodeRefusal::OtherMount { found }.into()),
        };
    }
    // On Xen, only the device name from EC2 identifies the disk of a volume.
    let hint = node.mounter.attached_under(volume);
    if hint.is_none() && node.mounter.trusts_silent_disks() {
        tracing::warn!(%volume, "skipping the check that the disk is free: its device name is unknown");
    }
    let query = DeviceQuery { volume: volume.clone(), hint, partition: None };
    match node.mounter.find_now(&query).await {
        Ok(device) => Ok(Some(device.number())),
        // If another disk has the volume's device name, the volume is not attached here.
        Err(DeviceError::Missing { .. } | DeviceError::Foreign { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the device number of a mount. For a bound device node, this is the number of the device behind the node.
async fn number_of(node: &LinuxNode, entry: &MountEntry) -> Result<DeviceNumber, Cause> {
    if entry.device.major != 0 {
        return Ok(entry.device);
    }
    let number = node.mounter.block_device_at(&entry.target).await.map_err(Cause::io("examine the path"))?;
    number.ok_or_else(|| NodeRefusal::NotPublished { found: "it is no longer a block device".to_owned() }.into())
}

/// Unmounts all mounts at the path from the top down, and returns their number. Stops at a mount of another owner.
async fn unmount_all(node: &LinuxNode, plan: &VolumePath, waiters: &Waiters) -> Result<usize, Cause> {
    for taken in 0..MAX_DEPTH {
        let (table, at) = owner::topmost(&plan.path).await?;
        let Some(entry) = table.topmost(&at) else { return Ok(taken) };
        let owner = owner::of_handle(&node.mounter, entry, &plan.volume).await?;
        if let Owner::Other(found) = owner {
            tracing::warn!(volume = %plan.volume, path = %plan.path, found, taken, "leaving the mount of another volume or file system in place");
            return Err(NodeRefusal::OtherMount { found }.into());
        }
        ensure_wanted(waiters, "unmounting")?;
        if entry.device.major == 0 && owner != Owner::Vanished {
            // Write the pod's unsynced data to the raw device.
            let number = number_of(node, entry).await?;
            node.mounter.flush(number).await.map_err(Cause::io("flush the device"))?;
        }
        let done = node.mounter.unmount_top(&plan.path, entry, owner == Owner::Vanished).await?;
        tracing::debug!(volume = %plan.volume, path = %plan.path, vanished = done.vanished, "unmounted");
    }
    Err(UnmountError::Endless { path: plan.path.as_path().to_owned(), mounts: MAX_DEPTH }.into())
}

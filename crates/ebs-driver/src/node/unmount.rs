//! NodeUnstageVolume and NodeUnpublishVolume: unmount all that lies at the path and remove the place.
//!
//! Unstaged means that nothing holds the disk, because EC2 detaches it next. Uses that this mount
//! table shows are refused before anything is changed. What it cannot show, mounts in other namespaces, shows an exclusive
//! open; that is possible only when our own mount is gone, so such a refusal says that the path is unmounted already. It comes
//! after the directory is removed: the kernel then takes away every idle copy of the mount in other namespaces, and what
//! somebody really uses still holds the disk.

use ebs_mounter::{DeviceError, DeviceNumber, DeviceQuery, Found, MountEntry, NodePath, UnmountError};
use ebs_types::{VolumeId, Waiters};

use super::Inner;
use super::error::{Cause, Refused};
use super::other_use;
use super::owner::{self, Owner};
use super::request::{Handle, Unmount};

/// More mounts on top of each other than this are somebody's mistake.
pub(super) const MAX_DEPTH: usize = 64;

/// Unmounts the staging path and removes it. A directory that holds files where nothing is mounted is left as it is. The record
/// of an interrupted format ends here.
pub(super) async fn unstage(node: &Inner, plan: &Unmount, waiters: &Waiters) -> Result<(), Cause> {
    let found = look(plan).await?;
    let disk = match &plan.volume {
        Handle::Volume(volume) => disk_to_let_go(node, volume, &plan.path).await?,
        // Nobody detaches it.
        Handle::NodeLocal(_) => None,
    };
    if let Some(disk) = disk {
        let staging = plan.path.in_table().await.map_err(Cause::io("resolving the path"))?;
        other_use::refuse_other_uses(node, disk, &staging).await?;
    }
    let unmounted = found != Found::Missing && unmount_all(node, plan, waiters).await? > 0;
    if unmounted || look(plan).await? == (Found::Directory { empty: true }) {
        plan.path.remove().await.map_err(Cause::io("removing the staging directory"))?;
    }
    if let Some(disk) = disk {
        other_use::let_go(node, disk, plan, unmounted).await?;
    }
    if let Handle::Volume(volume) = &plan.volume {
        node.mounter.abandon_format(volume).await;
    }
    Ok(())
}

/// Thaws the volume that is to be unstaged, when nothing but the staging path has it: a tool that grows a frozen file system sleeps
/// in the kernel and keeps the operation that unstage waits for. What cannot be looked at is left as it is, and unstage itself
/// reports why.
///
/// Cancellation: a thaw that has begun goes on.
pub(super) async fn thaw_unused(node: &Inner, plan: &Unmount) {
    let Ok((table, at)) = owner::topmost(&plan.path).await else { return };
    let Some(entry) = table.topmost(&at).filter(|entry| entry.device.major != 0) else { return };
    let Ok(Owner::Volume | Owner::Silent) = owner::of_handle(&node.mounter, entry, &plan.volume).await else { return };
    if node.mounter.thaw_only_mount(entry, &plan.path).await {
        tracing::warn!(volume = %plan.volume, path = %plan.path, "the file system was frozen while another operation ran: the driver thawed it, since no pod uses it");
    }
}

/// Unmounts the target and removes it, when it is empty.
pub(super) async fn unpublish(node: &Inner, plan: &Unmount, waiters: &Waiters) -> Result<(), Cause> {
    if look(plan).await? == Found::Missing {
        return Ok(());
    }
    unmount_all(node, plan, waiters).await?;
    plan.path.remove().await.map_err(Cause::io("removing the target path, which must be empty"))
}

async fn look(plan: &Unmount) -> Result<Found, Cause> {
    match plan.path.look().await.map_err(Cause::io("looking at the path"))? {
        Found::Symlink => Err(Refused::Symlink.into()),
        found => Ok(found),
    }
}

/// The disk that must be free when the volume is unstaged: the one that is mounted at the path, or, when nothing is (a raw
/// block volume, or a repeated call), the one that is the volume. `None` when there is none on this machine any more.
async fn disk_to_let_go(node: &Inner, volume: &VolumeId, path: &NodePath) -> Result<Option<DeviceNumber>, Cause> {
    let (table, at) = owner::topmost(path).await?;
    if let Some(entry) = table.topmost(&at) {
        return match owner::owner(&node.mounter, entry, volume).await? {
            Owner::Volume | Owner::Silent => Ok(Some(number_of(node, entry).await?)),
            Owner::Vanished => Ok(None),
            Owner::Other(found) => Err(Refused::OtherMount { found }.into()),
        };
    }
    // On Xen the name that EC2 gave the volume is all that leads to its disk.
    let hint = node.mounter.attached_under(volume);
    if hint.is_none() && node.mounter.trusts_silent_disks() {
        tracing::warn!(%volume, "the device name of the volume is not known to this driver any more, so whether its disk is free cannot be looked at");
    }
    let query = DeviceQuery { volume: volume.clone(), hint, partition: None };
    match node.mounter.find_now(&query).await {
        Ok(device) => Ok(Some(device.number())),
        // Another disk under the volume's name says that the volume is not here.
        Err(DeviceError::Missing { .. } | DeviceError::Foreign { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The device of a mount; of a bound node, the one that it leads to.
async fn number_of(node: &Inner, entry: &MountEntry) -> Result<DeviceNumber, Cause> {
    if entry.device.major != 0 {
        return Ok(entry.device);
    }
    let number = node.mounter.block_device_at(&entry.target).await.map_err(Cause::io("looking at the path"))?;
    number.ok_or_else(|| Refused::NotPublished { found: "no block device any more".to_owned() }.into())
}

/// Unmounts all mounts at the path, from the top down. Each is asked for its owner first; somebody else's ends it.
/// Returns how many there were.
async fn unmount_all(node: &Inner, plan: &Unmount, waiters: &Waiters) -> Result<usize, Cause> {
    for taken in 0..MAX_DEPTH {
        let (table, at) = owner::topmost(&plan.path).await?;
        let Some(entry) = table.topmost(&at) else { return Ok(taken) };
        let owner = match &plan.volume {
            Handle::Volume(volume) => owner::owner(&node.mounter, entry, volume).await?,
            Handle::NodeLocal(_) => owner::of_node_local(&node.mounter, entry).await?,
        };
        if let Owner::Other(found) = owner {
            tracing::warn!(volume = %plan.volume, path = %plan.path, found, taken, "a mount that is not of this volume was left in place");
            return Err(Refused::OtherMount { found }.into());
        }
        if !waiters.any() {
            return Err(Cause::Abandoned { before: "unmounting" });
        }
        if entry.device.major == 0 && owner != Owner::Vanished {
            // A raw device: what the pod wrote to it and did not sync.
            let number = number_of(node, entry).await?;
            node.mounter.flush(number).await.map_err(Cause::io("flushing the device"))?;
        }
        let done = node.mounter.unmount_top(&plan.path, entry, owner == Owner::Vanished).await?;
        tracing::debug!(volume = %plan.volume, path = %plan.path, vanished = done.vanished, "unmounted");
    }
    Err(UnmountError::Endless { path: plan.path.as_path().to_owned(), mounts: MAX_DEPTH }.into())
}

//! Determines which volume a mount belongs to, before the driver uses or unmounts the mount. Also unmounts dead mounts,
//! whose disk has vanished or whose file system was shut down, if no process can lose data. A device that hangs or
//! cannot be identified does not count as vanished.

use std::path::{Path, PathBuf};

use ebs_ec2::{VolumeId, Waiters};
use ebs_mounter::{
    Device, DeviceNumber, DeviceQuery, Identity, MountEntry, MountTable, Mounter, NodePath, PathKind, UnmountError,
};

use super::decide::describe;
use super::error::{Cause, NodeRefusal};
use super::request::Handle;
use super::unmount::MAX_DEPTH;
use super::wanted::ensure_wanted;
use super::{LinuxNode, in_use};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    Volume,
    Vanished,
    /// The disk does not identify itself (Xen).
    Silent,
    /// The mount belongs to another disk or file system, described for messages.
    Other(String),
}

impl Owner {
    /// Returns an error if the owner is another volume or the mount's device has vanished.
    pub(super) fn ensure_volume(self) -> Result<(), Cause> {
        match self {
            Self::Volume | Self::Silent => Ok(()),
            Self::Vanished => Err(not_published("the device of the mount has vanished")),
            Self::Other(found) => Err(not_published(found)),
        }
    }
}

pub(super) fn not_published(found: impl Into<String>) -> Cause {
    Cause::Refused(NodeRefusal::NotPublished { found: found.into() })
}

pub(super) async fn topmost(path: &NodePath) -> Result<(MountTable, PathBuf), Cause> {
    let at = path.in_table().await.map_err(Cause::io("resolve the path"))?;
    Ok((MountTable::read().await?, at))
}

/// Finds the owner of a mount by the identity of its disk. On Xen, a disk without an identity counts as the volume.
pub(super) async fn owner(mounter: &Mounter, entry: &MountEntry, volume: &VolumeId) -> Result<Owner, Cause> {
    if entry.device.major == 0 {
        return of_bound_node(mounter, entry, volume).await;
    }
    let identity = mounter.identify(entry.device).await?;
    Ok(owner_by_identity(mounter, identity, volume, || describe(entry)))
}

pub(super) async fn of_handle(mounter: &Mounter, entry: &MountEntry, handle: &Handle) -> Result<Owner, Cause> {
    match handle {
        Handle::Volume(volume) => owner(mounter, entry, volume).await,
        Handle::NodeLocal(_) => of_node_local(mounter, entry).await,
    }
}

/// Returns the volume that a handle names. For a node-local handle, this is the volume mounted or bound at the path.
pub(super) async fn named(mounter: &Mounter, handle: &Handle, path: &NodePath) -> Result<VolumeId, Cause> {
    if let Handle::Volume(volume) = handle {
        return Ok(volume.clone());
    }
    let (table, at) = topmost(path).await?;
    let entry = table.topmost(&at).ok_or_else(|| not_published("nothing is mounted there"))?;
    named_by(mounter, entry).await
}

/// Returns the volume that a mount belongs to, by the identity of its disk.
pub(super) async fn named_by(mounter: &Mounter, entry: &MountEntry) -> Result<VolumeId, Cause> {
    let number = match entry.device.major {
        0 => mounter.block_device_at(&entry.target).await.map_err(Cause::io("examine the volume path"))?,
        _ => Some(entry.device),
    };
    let identity = match number {
        Some(number) => mounter.identify(number).await?,
        None => None,
    };
    match identity {
        Some(Identity::Volume(volume)) => Ok(volume),
        Some(other) => Err(not_published(format!("{}: {other}", describe(entry)))),
        None => Err(not_published(format!("{}, which has no disk", describe(entry)))),
    }
}

pub(super) async fn of_device(mounter: &Mounter, number: DeviceNumber, volume: &VolumeId) -> Result<Owner, Cause> {
    let identity = mounter.identify(number).await?;
    Ok(owner_by_identity(mounter, identity, volume, || format!("device {number}")))
}

fn owner_by_identity(
    mounter: &Mounter,
    found: Option<Identity>,
    volume: &VolumeId,
    what: impl FnOnce() -> String,
) -> Owner {
    match found {
        None => Owner::Vanished,
        Some(Identity::Volume(found)) if found == *volume => Owner::Volume,
        Some(Identity::Silent) if mounter.trusts_silent_disks() => Owner::Silent,
        Some(other) => Owner::Other(format!("{}: {other}", what())),
    }
}

/// Finds the owner of a device node that is bound to a file, by the disk behind the node. If that disk was detached,
/// the owner is [`Owner::Vanished`], even if another disk has reused the number.
async fn of_bound_node(mounter: &Mounter, entry: &MountEntry, volume: &VolumeId) -> Result<Owner, Cause> {
    let Ok(Some(number)) = mounter.block_device_at(&entry.target).await else {
        return Ok(Owner::Other(describe(entry)));
    };
    let gone = || mounter.is_bound_disk_gone(entry, number);
    match of_device(mounter, number, volume).await {
        Ok(Owner::Other(_)) | Err(_) if gone().await.map_err(Cause::io("get the size of the device"))? => {
            Ok(Owner::Vanished)
        }
        other => other,
    }
}

/// Finds the owner of a mount for a node-local volume, whose ID is unknown. Accepts any existing disk or device node as
/// the volume.
async fn of_node_local(mounter: &Mounter, entry: &MountEntry) -> Result<Owner, Cause> {
    if entry.device.major == 0 {
        let is_node = mounter.block_device_at(&entry.target).await.is_ok_and(|number| number.is_some());
        return Ok(if is_node { Owner::Volume } else { Owner::Other(describe(entry)) });
    }
    let exists = mounter.exists(entry.device).await.map_err(Cause::io("find the device of the mount"))?;
    Ok(if exists { Owner::Volume } else { Owner::Vanished })
}

/// Returns the mount at the staging path if it belongs to this volume. On Xen, EC2's device name decides.
pub(super) async fn staged(
    mounter: &Mounter,
    staging: &NodePath,
    volume: &VolumeId,
    device: Option<&Path>,
) -> Result<MountEntry, Cause> {
    let not_staged = |found: String| Cause::Refused(NodeRefusal::NotStaged { staging: staging.clone(), found });
    let (table, at) = topmost(staging).await?;
    let entry = table.topmost(&at).ok_or_else(|| not_staged("nothing is mounted there".to_owned()))?;
    match owner(mounter, entry, volume).await? {
        Owner::Volume if entry.device.major != 0 => Ok(entry.clone()),
        Owner::Silent => {
            let query = DeviceQuery { volume: volume.clone(), hint: device.map(Path::to_owned), partition: None };
            let disk = mounter.find(&query).await?;
            let is_same_disk = mounter.disk_of(entry.device).await.map_err(Cause::io("find the disk of the mount"))?
                == Some(disk.number());
            if is_same_disk { Ok(entry.clone()) } else { Err(not_staged(describe(entry))) }
        }
        Owner::Volume => Err(not_staged(format!("a raw device is mounted there ({})", describe(entry)))),
        Owner::Vanished => Err(not_staged(format!("the device of its mount has vanished ({})", describe(entry)))),
        Owner::Other(found) => Err(not_staged(found)),
    }
}

/// At a path, unmounts the mounts whose disks have vanished, topmost first. Stops at a mount whose disk has not
/// vanished.
pub(super) async fn clear_vanished(
    node: &LinuxNode,
    volume: &VolumeId,
    path: &NodePath,
    waiters: &Waiters,
) -> Result<(), Cause> {
    for _ in 0..MAX_DEPTH {
        let (table, at) = topmost(path).await?;
        let Some(entry) = table.topmost(&at) else { return Ok(()) };
        let Ok(Owner::Vanished) = owner(&node.mounter, entry, volume).await else { return Ok(()) };
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
/// the last unmount. Fails while the volume is in use: a second mount would show the same dead file system.
pub(super) async fn clear_dead(
    node: &LinuxNode,
    device: &Device,
    staging: &NodePath,
    error: String,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let (_, at) = topmost(staging).await?;
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
        let (table, at) = topmost(staging).await?;
        let Some(entry) = table.topmost(&at).filter(|entry| entry.device == device.number()) else {
            return ensure_released(node, device, staging).await;
        };
        ensure_wanted(waiters, "unmounting")?;
        node.mounter.unmount_top(staging, entry, false).await?;
    }
    Err(UnmountError::Endless { path: staging.as_path().to_owned(), mounts: MAX_DEPTH }.into())
}

/// Fails while a process holds the disk. When the staging directory is removed, the kernel unmounts unused copies of
/// the mount in other namespaces, but an open file on such a copy keeps the file system alive.
async fn ensure_released(node: &LinuxNode, device: &Device, staging: &NodePath) -> Result<(), Cause> {
    let Err(held) = in_use::refuse_held(node, device.number(), true).await else { return Ok(()) };
    if staging.remove().await.is_ok() && in_use::refuse_held(node, device.number(), true).await.is_ok() {
        return Ok(());
    }
    // Return the first result, which still names the processes that hold the copies.
    Err(held)
}

//! Finds out which volume a mount belongs to. The driver neither unmounts nor uses a mount before it knows this.

use std::path::{Path, PathBuf};

use ebs_ec2::VolumeId;
use ebs_mounter::{DeviceNumber, DeviceQuery, Identity, MountEntry, MountTable, Mounter, NodePath};

use super::decide::describe;
use super::error::{Cause, NodeRefusal};
use super::request::Handle;

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
    /// Refuses another volume, and a mount whose device has vanished.
    pub(super) fn ensure_volume(self) -> Result<(), Cause> {
        match self {
            Self::Volume | Self::Silent => Ok(()),
            Self::Vanished => Err(not_published("its device has vanished")),
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

/// Finds the owner of a mount for a node-local volume, whose ID is unknown. Any existing disk or device node counts.
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

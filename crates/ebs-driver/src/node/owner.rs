//! Whose a mount is: nothing is bound, unmounted or counted before that is known.

use std::path::{Path, PathBuf};

use ebs_mounter::{DeviceQuery, Identity, MountEntry, MountTable, Mounter, NodePath};
use ebs_types::VolumeId;

use super::decide::describe;
use super::error::{Cause, Refused};

/// Whose a mount is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    /// The volume's.
    Volume,
    /// Of a device that does not exist any more.
    Vanished,
    /// Of a disk that says nothing of itself (Xen).
    Silent,
    /// Somebody else's, in words.
    Other(String),
}

/// The topmost mount at a path, and the path as the mount table spells it.
pub(super) async fn topmost(path: &NodePath) -> Result<(MountTable, PathBuf), Cause> {
    let at = path.in_table().await.map_err(Cause::io("resolving the path"))?;
    Ok((MountTable::read().await?, at))
}

/// Whose a mount is, asked of the disk behind it.
pub(super) async fn owner(mounter: &Mounter, entry: &MountEntry, volume: &VolumeId) -> Result<Owner, Cause> {
    if entry.device.major == 0 {
        return of_bound_node(mounter, entry).await;
    }
    Ok(match mounter.identify(entry.device).await? {
        None => Owner::Vanished,
        Some(Identity::Volume(found)) if found == *volume => Owner::Volume,
        Some(Identity::Silent) => Owner::Silent,
        Some(other) => Owner::Other(format!("{}: {other}", describe(entry))),
    })
}

/// A raw block volume is a device node that is bound to a file: to unmount it touches no data, whatever device has
/// taken over the number since.
async fn of_bound_node(mounter: &Mounter, entry: &MountEntry) -> Result<Owner, Cause> {
    let is_node = mounter.block_device_at(&entry.target).await.is_ok_and(|number| number.is_some());
    Ok(if is_node { Owner::Volume } else { Owner::Other(describe(entry)) })
}

/// The mount at the staging path when it is this volume's (`node.md` N-17). On Xen the name EC2 reports decides.
pub(super) async fn staged(
    mounter: &Mounter,
    staging: &NodePath,
    volume: &VolumeId,
    device: Option<&Path>,
) -> Result<MountEntry, Cause> {
    let not_staged = |found: String| Cause::Refused(Refused::NotStaged { staging: staging.clone(), found });
    let (table, at) = topmost(staging).await?;
    let entry = table.topmost(&at).ok_or_else(|| not_staged("nothing is mounted there".to_owned()))?;
    match owner(mounter, entry, volume).await? {
        Owner::Volume if entry.device.major != 0 => Ok(entry.clone()),
        Owner::Silent => {
            let query = DeviceQuery { volume: volume.clone(), hint: device.map(Path::to_owned), partition: None };
            let disk = mounter.find(&query).await?;
            let is_it =
                mounter.disk_of(entry.device).await.map_err(Cause::io("looking for the disk"))? == Some(disk.number());
            if is_it { Ok(entry.clone()) } else { Err(not_staged(describe(entry))) }
        }
        Owner::Volume => Err(not_staged(format!("a raw device is mounted there ({})", describe(entry)))),
        Owner::Vanished => Err(not_staged(format!("the device of its mount has vanished ({})", describe(entry)))),
        Owner::Other(found) => Err(not_staged(found)),
    }
}

/// Refuses when the topmost mount at a path is somebody else's.
pub(super) async fn refuse_others(mounter: &Mounter, path: &NodePath, volume: &VolumeId) -> Result<(), Cause> {
    let (table, at) = topmost(path).await?;
    let Some(entry) = table.topmost(&at) else { return Ok(()) };
    match owner(mounter, entry, volume).await? {
        Owner::Volume | Owner::Vanished | Owner::Silent => Ok(()),
        Owner::Other(found) => Err(Refused::OtherMount { found }.into()),
    }
}

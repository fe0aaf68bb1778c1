//! NodeUnstageVolume: flushes and unmounts the volume, removes the staging path, and takes the disk offline, because
//! EC2 detaches it next. A later call can continue after any step. The disk is identified before the unmount, or by its
//! serial number if nothing is mounted.

use ebs_ec2::Waiters;
use winstorage::StorageError;
use winstorage::service::Found;
use winstorage::types::DiskNumber;

use crate::disks::{Disks, Owner};
use crate::error::{Cause, NodeRefusal, ensure_wanted};
use crate::request::At;
use crate::storage::Role;

pub(crate) fn run(disks: &Disks, plan: &At, waiters: &Waiters) -> Result<(), Cause> {
    let (storage, path) = (&disks.storage, plan.path.to_string());
    let disk = match storage.look(&path, Role::Staging)? {
        Found::MountPoint(guid) => match disks.owner(&guid, &plan.volume, None)? {
            Owner::Volume(disk) => {
                ensure_wanted(waiters, "unmounting")?;
                storage.unmount_volume(&guid.to_string(), &path)?;
                Some(disk)
            }
            // The volume of an offline disk is not visible, and a detached disk does not exist.
            Owner::Vanished => {
                tracing::warn!(volume = %plan.volume, path, mounted = %guid, "the mounted volume is missing, so its unflushed data is lost");
                disks.present(&plan.volume, None)?
            }
            Owner::Other(disk) => {
                return Err(NodeRefusal::OtherMount { found: format!("{guid} of disk {disk}") }.into());
            }
        },
        Found::Missing | Found::Directory { .. } => disks.present(&plan.volume, None)?,
        found => return Err(NodeRefusal::InTheWay { found: found.to_string() }.into()),
    };
    remove_place(disks, &path)?;
    match disk {
        Some(disk) => offline(disks, plan, disk, waiters),
        None => Ok(()),
    }
}

/// Removes the staging path. Leaves a directory with content alone, because the driver did not create the content.
fn remove_place(disks: &Disks, path: &str) -> Result<(), Cause> {
    match disks.storage.look(path, Role::Staging)? {
        Found::Directory { empty: true } | Found::MountPoint(_) => match disks.storage.rmdir(path, false) {
            Err(Cause::Storage(StorageError::Missing { .. })) => Ok(()),
            removed => removed,
        },
        Found::Missing => Ok(()),
        found => {
            tracing::warn!(path, %found, "nothing is mounted at the staging path, keeping its contents");
            Ok(())
        }
    }
}

/// Takes the disk offline, if it still belongs to the volume.
fn offline(disks: &Disks, plan: &At, disk: DiskNumber, waiters: &Waiters) -> Result<(), Cause> {
    ensure_wanted(waiters, "taking the disk offline")?;
    if !disks.xen {
        match disks.present(&plan.volume, None)? {
            Some(now) if now == disk => {}
            // The disk has been detached in the meantime.
            None => return Ok(()),
            Some(now) => return Err(NodeRefusal::DiskChanged { was: disk, now: Some(now) }.into()),
        }
    }
    match disks.storage.set_disk_state(disk, false) {
        Err(Cause::Storage(StorageError::DiskNotFound(_))) => Ok(()),
        done => done,
    }
}

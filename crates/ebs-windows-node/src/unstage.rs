//! NodeUnstageVolume: flush, unmount, remove the place, take the disk offline, because EC2 detaches it next. After each
//! step the next call goes on: the disk is told before the unmount, and by its serial number where nothing is mounted any more.

use ebs_types::Waiters;
use winstorage::StorageError;
use winstorage::service::Found;
use winstorage::types::DiskNumber;

use crate::disks::{Disks, Owner};
use crate::error::{Cause, Refused};
use crate::request::At;
use crate::stage::still_wanted;
use crate::storage::Role;

pub(crate) fn run(disks: &Disks, plan: &At, waiters: &Waiters) -> Result<(), Cause> {
    let (storage, path) = (&disks.storage, plan.path.to_string());
    let disk = match storage.look(&path, Role::Staging)? {
        Found::MountPoint(guid) => match disks.owner(&guid, &plan.volume, None)? {
            Owner::Volume(disk) => {
                still_wanted(waiters, "unmounting")?;
                storage.unmount_volume(&guid.to_string(), &path)?;
                Some(disk)
            }
            // A disk that is offline shows no volume; one that was detached is no more.
            Owner::Vanished => {
                tracing::warn!(volume = %plan.volume, path, mounted = %guid, "the volume that was mounted there is gone, and what was not flushed is lost");
                disks.present(&plan.volume, None)?
            }
            Owner::Other(disk) => {
                return Err(Refused::OtherMount { found: format!("{guid} of disk {disk}") }.into());
            }
        },
        Found::Missing | Found::Directory { .. } => disks.present(&plan.volume, None)?,
        found => return Err(Refused::InTheWay { found: found.to_string() }.into()),
    };
    remove_place(disks, &path)?;
    match disk {
        Some(disk) => offline(disks, plan, disk, waiters),
        None => Ok(()),
    }
}

/// The place of the mount goes; a directory with something in it is not ours, and stays.
fn remove_place(disks: &Disks, path: &str) -> Result<(), Cause> {
    match disks.storage.look(path, Role::Staging)? {
        Found::Directory { empty: true } | Found::MountPoint(_) => match disks.storage.rmdir(path, false) {
            Err(Cause::Storage(StorageError::Missing { .. })) => Ok(()),
            removed => removed,
        },
        Found::Missing => Ok(()),
        found => {
            tracing::warn!(path, %found, "nothing was mounted there, and what is there stays");
            Ok(())
        }
    }
}

/// Takes the disk offline, if it is the volume's still.
fn offline(disks: &Disks, plan: &At, disk: DiskNumber, waiters: &Waiters) -> Result<(), Cause> {
    still_wanted(waiters, "taking the disk offline")?;
    if !disks.xen {
        match disks.present(&plan.volume, None)? {
            Some(now) if now == disk => {}
            // It was detached meanwhile.
            None => return Ok(()),
            Some(now) => return Err(Refused::DiskChanged { was: disk, now: Some(now) }.into()),
        }
    }
    match disks.storage.set_disk_state(disk, false) {
        Err(Cause::Storage(StorageError::DiskNotFound(_))) => Ok(()),
        done => done,
    }
}

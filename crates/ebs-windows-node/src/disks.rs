//! Whose disk is whose. Nothing is written, mounted or let go before that is known.

use std::sync::Arc;

use ebs_types::VolumeId;
use winstorage::service::Found;
use winstorage::types::{DiskNumber, VolumeGuid};
use winstorage::{StorageError, locate};

use crate::error::{Cause, Refused};
use crate::storage::{NodeStorage, Role};

/// This machine's disks.
pub(crate) struct Disks {
    pub(crate) storage: Arc<dyn NodeStorage>,
    /// Instances without Nitro have disks that do not say what they are: there, and only there, the place that EC2 names counts.
    pub(crate) xen: bool,
}

/// Whose a volume of Windows is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The EBS volume's, with the number of its disk now.
    Volume(DiskNumber),
    /// Of a disk that is not there, or offline.
    Vanished,
    /// Somebody else's.
    Other(DiskNumber),
}

impl Disks {
    /// The disk of the volume. One that has not arrived yet is waited for, for some seconds.
    pub(crate) fn disk_of(&self, volume: &VolumeId, device: Option<&str>) -> Result<DiskNumber, Cause> {
        self.storage.disk_of_ebs_volume(volume.as_str(), self.place(device))
    }

    /// The same, of the disks that there are now.
    pub(crate) fn present(&self, volume: &VolumeId, device: Option<&str>) -> Result<Option<DiskNumber>, Cause> {
        self.storage.present_disk_of_ebs_volume(volume.as_str(), self.place(device))
    }

    /// Refuses to go on where the number has become another disk's: numbers are given again.
    pub(crate) fn still(&self, disk: DiskNumber, volume: &VolumeId, device: Option<&str>) -> Result<(), Cause> {
        match self.present(volume, device)? {
            Some(now) if now == disk => Ok(()),
            now => Err(Refused::DiskChanged { was: disk, now }.into()),
        }
    }

    /// Whose the volume of Windows is that something at a path leads to.
    pub(crate) fn owner(&self, guid: &VolumeGuid, volume: &VolumeId, device: Option<&str>) -> Result<Owner, Cause> {
        let disk = match self.storage.disk_number_of_volume(&guid.to_string()) {
            Err(Cause::Storage(StorageError::VolumeNotFound(_))) => return Ok(Owner::Vanished),
            disk => disk?,
        };
        if self.present(volume, device)? == Some(disk) {
            return Ok(Owner::Volume(disk));
        }
        let ids = self.storage.list_disk_ids()?;
        let is_silent = ids.get(&disk).is_some_and(|ids| !locate::names_an_ebs_volume(ids));
        Ok(if self.xen && is_silent { Owner::Volume(disk) } else { Owner::Other(disk) })
    }

    /// The volume of Windows that a path shows, through a link; `None` where it shows none.
    pub(crate) fn shown_at(&self, path: &str) -> Result<Option<VolumeGuid>, Cause> {
        match self.storage.volume_of_path(path) {
            Err(Cause::Storage(StorageError::NotMounted { .. } | StorageError::Missing { .. })) => Ok(None),
            shown => Ok(Some(shown?)),
        }
    }

    /// The volume and its disk at a path that shows it, and nothing else.
    pub(crate) fn published(&self, path: &str, volume: &VolumeId) -> Result<(VolumeGuid, DiskNumber), Cause> {
        let refuse = |found: String| Cause::Refused(Refused::NotPublished { found });
        let found = || Ok::<_, Cause>(self.storage.look(path, Role::Target)?.to_string());
        let Some(guid) = self.shown_at(path)? else { return Err(refuse(found()?)) };
        match self.owner(&guid, volume, None)? {
            Owner::Volume(disk) => Ok((guid, disk)),
            Owner::Vanished => Err(refuse(format!("{guid}, whose disk is not there"))),
            Owner::Other(disk) => Err(refuse(format!("{guid} of disk {disk}, which is not this volume"))),
        }
    }

    /// Instances with Nitro have disks that say what they are: no place counts there.
    fn place<'a>(&self, device: Option<&'a str>) -> &'a str {
        device.filter(|_| self.xen).unwrap_or_default()
    }
}

/// What may stand where a volume is to be mounted or linked.
pub(crate) fn free(found: &Found) -> Result<(), Refused> {
    match found {
        Found::Missing | Found::Directory { empty: true } => Ok(()),
        other => Err(Refused::InTheWay { found: other.to_string() }),
    }
}

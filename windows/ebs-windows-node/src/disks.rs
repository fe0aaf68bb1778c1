//! Determines to which volume a disk belongs. The node service does so before every write, mount and unmount.

use std::sync::Arc;

use ebs_ec2::VolumeId;
use winstorage::service::Found;
use winstorage::types::{DiskNumber, VolumeGuid};
use winstorage::{StorageError, locate};

use crate::error::{Cause, NodeRefusal};
use crate::storage::{NodeStorage, Role};

pub(crate) struct Disks {
    pub(crate) storage: Arc<dyn NodeStorage>,
    /// Whether this is an instance without Nitro. Only on such instances do disks have no EBS serial number, so the
    /// driver identifies a disk by its location, which EC2's device name determines.
    pub(crate) xen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The requested EBS volume. Its disk has this number now.
    Volume(DiskNumber),
    /// The owner is unknown, because the disk is detached or offline.
    Vanished,
    Other(DiskNumber),
}

impl Disks {
    /// Returns the disk of the volume. Waits some seconds if Windows does not show it yet.
    pub(crate) fn disk_of(&self, volume: &VolumeId, device: Option<&str>) -> Result<DiskNumber, Cause> {
        self.storage.disk_of_ebs_volume(volume.as_str(), self.place(device))
    }

    /// Returns the disk of the volume, if Windows shows it now.
    pub(crate) fn present(&self, volume: &VolumeId, device: Option<&str>) -> Result<Option<DiskNumber>, Cause> {
        self.storage.present_disk_of_ebs_volume(volume.as_str(), self.place(device))
    }

    /// Fails if the disk number now belongs to another disk. Windows reuses numbers.
    pub(crate) fn ensure_unchanged(
        &self,
        disk: DiskNumber,
        volume: &VolumeId,
        device: Option<&str>,
    ) -> Result<(), Cause> {
        match self.present(volume, device)? {
            Some(now) if now == disk => Ok(()),
            now => Err(NodeRefusal::DiskChanged { was: disk, now }.into()),
        }
    }

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

    /// Returns the Windows volume to which a path leads, directly or through a link. Returns `None` if it leads to no
    /// volume.
    pub(crate) fn volume_at(&self, path: &str) -> Result<Option<VolumeGuid>, Cause> {
        match self.storage.volume_of_path(path) {
            Err(Cause::Storage(StorageError::NotMounted { .. } | StorageError::Missing { .. })) => Ok(None),
            shown => Ok(Some(shown?)),
        }
    }

    /// Returns the Windows volume and the disk of a path. Fails unless the path leads to `volume`.
    pub(crate) fn published(&self, path: &str, volume: &VolumeId) -> Result<(VolumeGuid, DiskNumber), Cause> {
        let refuse = |found: String| Cause::Refused(NodeRefusal::NotPublished { found });
        let found = || Ok::<_, Cause>(self.storage.look(path, Role::Target)?.to_string());
        let Some(guid) = self.volume_at(path)? else { return Err(refuse(found()?)) };
        match self.owner(&guid, volume, None)? {
            Owner::Volume(disk) => Ok((guid, disk)),
            Owner::Vanished => Err(refuse(format!("{guid}, whose disk is missing"))),
            Owner::Other(disk) => Err(refuse(format!("{guid} of disk {disk}, which belongs to another volume"))),
        }
    }

    /// Returns the device name for the search for a disk. It is empty on Nitro, where disks have serial numbers.
    fn place<'a>(&self, device: Option<&'a str>) -> &'a str {
        device.filter(|_| self.xen).unwrap_or_default()
    }
}

pub(crate) fn ensure_free(found: &Found) -> Result<(), NodeRefusal> {
    match found {
        Found::Missing | Found::Directory { empty: true } => Ok(()),
        other => Err(NodeRefusal::InTheWay { found: other.to_string() }),
    }
}

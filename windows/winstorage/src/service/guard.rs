//! Protects Windows' own storage. Clients cannot partition its disks or take them offline, and cannot format, resize or
//! unmount its volumes.

use crate::host::{Disk, Partition, VolumeRow};
use crate::types::{DiskNumber, VolumeGuid};
use crate::{Storage, StorageError};

pub(super) struct Ours {
    pub(super) row: VolumeRow,
    pub(super) partitions: Vec<Partition>,
    pub(super) disk: Disk,
}

impl Storage {
    /// Returns the disk, if it exists and `operation` may change it.
    pub(super) fn changeable_disk(&self, operation: &'static str, number: DiskNumber) -> Result<Disk, StorageError> {
        let disk = self.host.disk(number)?.ok_or(StorageError::DiskNotFound(number))?;
        match self.system_reason(&disk)? {
            Some(reason) => Err(refused(operation, format!("disk {number}"), reason)),
            None => Ok(disk),
        }
    }

    /// Checks that a disk exists, does not belong to Windows, and has no partitions, so that the caller may overwrite
    /// it.
    pub(crate) fn unused_disk(&self, number: DiskNumber) -> Result<(), StorageError> {
        self.changeable_disk("selftest", number)?;
        let is_unused = self.host.partitions(number, None)?.is_empty();
        is_unused.then_some(()).ok_or(StorageError::InUse(number))
    }

    /// Makes a disk read-only, as Windows does under some SAN policies.
    pub(crate) fn make_read_only(&self, number: DiskNumber) -> Result<(), StorageError> {
        let disk = self.changeable_disk("selftest", number)?;
        Ok(self.host.set_disk_read_only(&disk, true)?)
    }

    pub(crate) fn is_read_only(&self, number: DiskNumber) -> Result<bool, StorageError> {
        Ok(self.host.disk(number)?.ok_or(StorageError::DiskNotFound(number))?.is_read_only)
    }

    pub(crate) fn system_disk(&self) -> Result<Option<DiskNumber>, StorageError> {
        Ok(self.host.system_disk()?)
    }

    pub fn pause(&self, time: std::time::Duration) {
        self.host.native().pause(time);
    }

    /// Returns the volume, if it exists, its disk is known, and `operation` may change it.
    pub(super) fn changeable_volume(&self, operation: &'static str, volume: &VolumeGuid) -> Result<Ours, StorageError> {
        let row = self.host.volume(volume)?.ok_or_else(|| StorageError::VolumeNotFound(volume.clone()))?;
        let refuse = |reason| Err(refused(operation, format!("volume {volume}"), reason));
        let partitions = self.host.partitions_of_volume(&row)?;
        if partitions.iter().any(|partition| partition.is_boot || partition.is_system) {
            return refuse("is a boot or system volume");
        }
        let mut disks: Vec<Disk> = Vec::new();
        for partition in &partitions {
            if disks.iter().any(|disk| disk.number == partition.disk) {
                continue;
            }
            let disk = self.host.disk(partition.disk)?.ok_or(StorageError::DiskNotFound(partition.disk))?;
            if let Some(reason) = self.system_reason(&disk)? {
                return refuse(reason);
            }
            disks.push(disk);
        }
        let disk = disks.into_iter().next().ok_or_else(|| StorageError::NoDisk(volume.clone()))?;
        Ok(Ours { row, partitions, disk })
    }

    /// Rejects a volume with a drive letter. Windows assigns letters by itself, so callers skip this check for a volume
    /// that is proven to be blank or mounted by a client. Without such a proof, the letter is the last protection.
    pub(super) fn no_drive_letter(&self, operation: &'static str, ours: &Ours) -> Result<(), StorageError> {
        match ours.row.drive_letter {
            Some(_) => Err(refused(operation, format!("volume {}", ours.row.id), "has a drive letter")),
            None => Ok(()),
        }
    }

    fn system_reason(&self, disk: &Disk) -> Result<Option<&'static str>, StorageError> {
        if disk.is_boot || disk.is_system {
            return Ok(Some("is a boot or system disk"));
        }
        let holds_windows = self.host.system_disk()? == Some(disk.number);
        Ok(holds_windows.then_some("is on the disk of %SystemRoot%"))
    }
}

fn refused(operation: &'static str, object: String, reason: &'static str) -> StorageError {
    StorageError::SystemStorage { operation, object, reason }
}

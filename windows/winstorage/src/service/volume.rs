//! Volumes.

use crate::host::VolumeRow;
use crate::types::{DiskNumber, PartitionNumber, VolumeGuid};
use crate::{Storage, StorageError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeStats {
    pub total: u64,
    pub used: u64,
}

impl Storage {
    /// Returns the volumes on a disk, or on one partition of it, in the order of the partitions. An empty list is not
    /// an error.
    pub fn list_volumes_on_disk(
        &self,
        disk: DiskNumber,
        partition: Option<PartitionNumber>,
    ) -> Result<Vec<VolumeGuid>, StorageError> {
        let partitions = self.host.partitions(disk, partition)?;
        if partitions.is_empty() && self.host.disk(disk)?.is_none() {
            return Err(StorageError::DiskNotFound(disk));
        }
        let mut volumes = Vec::new();
        for partition in &partitions {
            volumes.extend(self.host.volumes_of_partition(partition)?);
        }
        Ok(volumes)
    }

    pub fn is_volume_formatted(&self, volume: &str) -> Result<bool, StorageError> {
        let row = self.row_of_volume(&volume_id(volume)?)?;
        Ok(row.is_formatted)
    }

    /// Creates an empty NTFS file system on a blank volume. Unless `--allow-reformat` is set, the bytes of the disk
    /// must first prove that the disk is blank.
    pub fn format_volume(&self, volume: &str) -> Result<(), StorageError> {
        let volume = volume_id(volume)?;
        let disk = self.changeable_volume("FormatVolume", &volume)?.disk.number;
        let _held = self.hold(disk, "FormatVolume")?;
        // Check again, now that no other operation can format the volume.
        let ours = self.changeable_volume("FormatVolume", &volume)?;
        if self.policy.allow_reformat {
            self.no_drive_letter("FormatVolume", &ours)?;
        } else if ours.row.is_formatted {
            return Err(StorageError::AlreadyFormatted(volume));
        } else {
            self.prove_blank_volume("FormatVolume", &ours)?;
        }
        Ok(self.host.format_ntfs(&ours.row)?)
    }

    pub fn volume_stats(&self, volume: &str) -> Result<VolumeStats, StorageError> {
        let row = self.row_of_volume(&volume_id(volume)?)?;
        Ok(VolumeStats { total: row.size, used: row.size.saturating_sub(row.remaining) })
    }

    pub fn disk_number_of_volume(&self, volume: &str) -> Result<DiskNumber, StorageError> {
        let volume = volume_id(volume)?;
        let row = self.row_of_volume(&volume)?;
        let partitions = self.host.partitions_of_volume(&row)?;
        let first =
            partitions.first().map(|partition| partition.disk).ok_or_else(|| StorageError::NoDisk(volume.clone()))?;
        if partitions.iter().any(|partition| partition.disk != first) {
            return Err(StorageError::Spanned { volume, count: partitions.len() });
        }
        Ok(first)
    }

    pub fn write_volume_cache(&self, volume: &str) -> Result<(), StorageError> {
        let row = self.row_of_volume(&volume_id(volume)?)?;
        Ok(self.host.flush(&row)?)
    }

    pub(super) fn row_of_volume(&self, volume: &VolumeGuid) -> Result<VolumeRow, StorageError> {
        self.host.volume(volume)?.ok_or_else(|| StorageError::VolumeNotFound(volume.clone()))
    }
}

/// Parses the volume id for every operation except MountVolume.
pub(super) fn volume_id(text: &str) -> Result<VolumeGuid, StorageError> {
    if text.is_empty() { Err(StorageError::Empty("volume id empty")) } else { Ok(VolumeGuid::parse(text)?) }
}

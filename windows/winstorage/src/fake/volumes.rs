//! Volumes.

use super::FakeHost;
use super::disks::{FakeDisk, Late, MIB, RESERVED, place, result};
use crate::host::{HostError, ObjectPath, Partition, VolumeHost, VolumeRow, code};
use crate::types::VolumeGuid;

const EMPTY_NTFS: u64 = 30 * MIB;

impl VolumeHost for FakeHost {
    fn volumes_of_partition(&self, of: &Partition) -> Result<Vec<VolumeGuid>, HostError> {
        self.step("volumes_of_partition", &place(of), |state| {
            let partition = state.disks.partition_mut("volumes_of_partition", of)?.0;
            let shown = partition.volume.clone().filter(|_| !partition.is_offline);
            Ok(shown.into_iter().filter(|volume| state.disks.is_visible(volume)).collect())
        })
    }

    fn partitions_of_volume(&self, volume: &VolumeRow) -> Result<Vec<Partition>, HostError> {
        self.step("partitions_of_volume", &volume.id.to_string(), |state| {
            let holders = state.disks.holders(&volume.id).into_iter();
            Ok(holders.map(|(disk, partition)| state.disks.shown(disk, partition)).collect())
        })
    }

    fn volume(&self, id: &VolumeGuid) -> Result<Option<VolumeRow>, HostError> {
        self.step("volume", &id.to_string(), |state| {
            let letter = state.disks.holders(id).iter().find_map(|(_, partition)| partition.letter);
            let volume = state.disks.volume(id).filter(|_| state.disks.is_visible(id));
            let hides = |disk: &FakeDisk| disk.hides(Late::FileSystems, state.disks.now);
            let is_late = state.disks.disk_of(id).is_some_and(hides);
            let is_formatted = volume.is_some_and(|volume| volume.is_formatted && !is_late);
            Ok(volume.map(|volume| VolumeRow {
                object: ObjectPath(volume.id.to_string()),
                id: volume.id.clone(),
                is_formatted,
                size: if is_formatted { volume.size } else { 0 },
                remaining: if is_formatted { volume.size.saturating_sub(volume.used) } else { 0 },
                drive_letter: letter,
            }))
        })
    }

    fn format_ntfs(&self, of: &VolumeRow) -> Result<(), HostError> {
        self.step("format_ntfs", &of.id.to_string(), |state| {
            if !state.disks.is_visible(&of.id) {
                return Err(HostError::method("format_ntfs", &of.id, result::FAILED));
            }
            if state.disks.disk_of(&of.id).is_some_and(|disk| disk.is_read_only) {
                return Err(HostError::method("format_ntfs", &of.id, result::READ_ONLY));
            }
            let holds = |disk: &&mut FakeDisk| disk.partitions.iter().any(|part| part.volume.as_ref() == Some(&of.id));
            if let Some(disk) = state.disks.disks.values_mut().find(holds) {
                disk.content.insert(RESERVED + MIB, b"NTFS".to_vec());
            }
            if let Some(volume) = state.disks.volumes.iter_mut().find(|volume| volume.id == of.id) {
                (volume.is_formatted, volume.used) = (true, EMPTY_NTFS.min(volume.size));
                volume.formats += 1;
            }
            state.files.clear_volume(&of.id);
            Ok(())
        })
    }

    fn flush(&self, of: &VolumeRow) -> Result<(), HostError> {
        self.step("flush", &of.id.to_string(), |state| {
            if !state.disks.is_visible(&of.id) {
                return Err(HostError::method("flush", &of.id, result::FAILED));
            }
            let is_read_only = state.disks.disk_of(&of.id).is_some_and(|disk| disk.is_read_only);
            (!is_read_only).then_some(()).ok_or_else(|| HostError::method("flush", &of.id, result::READ_ONLY))
        })
    }
}

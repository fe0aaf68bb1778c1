//! Volumes.

use super::FakeHost;
use super::disks::{Late, MIB, RESERVED};
use crate::host::{HostError, ObjectPath, Partition, VolumeHost, VolumeRow};
use crate::types::VolumeGuid;

/// Number of bytes that an empty NTFS uses.
const EMPTY_NTFS: u64 = 30 * MIB;

impl VolumeHost for FakeHost {
    fn volumes_of_partition(&self, of: &Partition) -> Result<Vec<VolumeGuid>, HostError> {
        self.step("volumes_of_partition", &of.object, |state| {
            let partition = state.disks.partition_mut(of)?.0;
            let found = partition.volume_id().filter(|_| !partition.offline);
            Ok(found.into_iter().filter(|volume| state.disks.is_visible(volume)).collect())
        })
    }

    fn partitions_of_volume(&self, volume: &VolumeRow) -> Result<Vec<Partition>, HostError> {
        self.step("partitions_of_volume", &volume.id, |state| {
            let holders = state.disks.holders(&volume.id).into_iter();
            Ok(holders.map(|(disk, partition)| state.disks.row(disk, partition)).collect())
        })
    }

    fn volume(&self, id: &VolumeGuid) -> Result<Option<VolumeRow>, HostError> {
        self.step("volume", id, |state| {
            let now = state.disks.now;
            let holders = state.disks.holders(id);
            let Some((number, holder)) = holders.first() else { return Ok(None) };
            let is_late = state.disks.disks[number].hides(Late::FileSystems, now);
            let found = holder.volume.as_ref().filter(|volume| volume.formatted && !is_late);
            Ok(Some(VolumeRow {
                object: ObjectPath(id.to_string()),
                id: id.clone(),
                is_formatted: found.is_some(),
                size: found.map_or(0, |_| holder.size),
                remaining: found.map_or(0, |volume| holder.size.saturating_sub(volume.used)),
                drive_letter: holders.iter().find_map(|(_, partition)| partition.letter),
            }))
        })
    }

    fn format_ntfs(&self, of: &VolumeRow) -> Result<(), HostError> {
        self.step("format_ntfs", &of.id, |state| {
            state.disks.ensure_writable(&of.id)?;
            if let Some(disk) = state.disks.disks.values_mut().find(|disk| disk.holds(&of.id)) {
                disk.content.insert(RESERVED + MIB, b"NTFS".to_vec());
            }
            if let Some((volume, size)) = state.disks.volume_mut(&of.id) {
                (volume.formatted, volume.used) = (true, EMPTY_NTFS.min(size));
                volume.formats += 1;
            }
            state.files.clear_volume(&of.id);
            Ok(())
        })
    }

    fn flush(&self, of: &VolumeRow) -> Result<(), HostError> {
        self.step("flush", &of.id, |state| state.disks.ensure_writable(&of.id))
    }
}

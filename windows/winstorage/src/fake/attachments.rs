//! How a test changes and inspects disks.

use std::time::Duration;

use super::FakeHost;
use super::disks::{FakeDisk, Late};
use crate::types::VolumeGuid;

impl FakeHost {
    pub fn add_disk(&self, number: u32, serial: &str, size: u64, online: bool) {
        self.state().disks.disks.insert(number, FakeDisk::raw(serial, size, online));
    }

    pub fn add_arriving_disk(&self, number: u32, serial: &str, size: u64) {
        self.state().disks.arriving.insert(number, FakeDisk::raw(serial, size, false));
    }

    /// Attaches the disk with this serial number and size. It is offline. It has the contents of a detached disk with
    /// the same serial number, or is empty.
    pub fn attach_disk(&self, number: u32, serial: &str, size: u64) {
        let disks = &mut self.state().disks;
        let away = disks.away.iter().position(|disk| disk.serial == serial).map(|at| disks.away.remove(at));
        let mut disk = away.unwrap_or_else(|| FakeDisk::raw(serial, size, false));
        (disk.size, disk.online) = (size, false);
        disks.disks.insert(number, disk);
    }

    /// Detaches a disk without notice. The disk keeps its contents.
    pub fn detach_disk(&self, number: u32) {
        let disks = &mut self.state().disks;
        let gone = disks.disks.remove(&number);
        disks.away.extend(gone);
    }

    pub fn remove_disk(&self, number: u32) {
        self.state().disks.disks.remove(&number);
    }

    pub fn set_disk_size(&self, number: u32, size: u64) {
        self.change_disk(number, |disk| disk.size = size);
    }

    pub fn set_drive_letter(&self, number: u32, letter: char) {
        self.change_disk(number, |disk| disk.partitions.last_mut().expect("a partition").letter = Some(letter));
    }

    /// Makes the disk read-only. If it `collides` with another disk, it cannot go online while it is read-only.
    pub fn set_read_only(&self, number: u32, collides: bool) {
        self.change_disk(number, |disk| (disk.read_only, disk.collides) = (true, collides));
    }

    /// Hides a part of the disk until the disk has been online for `after`.
    pub fn show_late(&self, number: u32, what: Late, after: Duration) {
        self.change_disk(number, |disk| disk.late = Some((what, after)));
    }

    /// Writes bytes to a disk, without regard to partition tables.
    pub fn write_disk(&self, number: u32, offset: u64, bytes: &[u8]) {
        self.change_disk(number, |disk| drop(disk.content.insert(offset, bytes.to_vec())));
    }

    fn change_disk(&self, number: u32, change: impl FnOnce(&mut FakeDisk)) {
        if let Some(disk) = self.state().disks.disks.get_mut(&number) {
            change(disk);
        }
    }

    pub fn is_read_only(&self, number: u32) -> bool {
        self.state().disks.disks.get(&number).is_some_and(|disk| disk.read_only)
    }

    pub fn is_online(&self, number: u32) -> bool {
        self.state().disks.disks.get(&number).is_some_and(|disk| disk.online)
    }

    /// Returns the volumes of a disk, including those that Windows does not show.
    pub fn volumes_of(&self, number: u32) -> Vec<VolumeGuid> {
        let state = self.state();
        let partitions = state.disks.disks.get(&number).into_iter().flat_map(|disk| &disk.partitions);
        partitions.filter_map(|partition| Some(partition.volume.as_ref()?.id.clone())).collect()
    }

    pub fn size_of(&self, volume: &VolumeGuid) -> u64 {
        self.state().disks.volume_mut(volume).map_or(0, |(_, size)| size)
    }

    pub fn formats(&self, volume: &VolumeGuid) -> usize {
        self.state().disks.volume_mut(volume).map_or(0, |(volume, _)| volume.formats)
    }

    /// Marks the volume as formatted, with `used` bytes in use.
    pub fn set_formatted(&self, volume: &VolumeGuid, used: u64) {
        if let Some((volume, _)) = self.state().disks.volume_mut(volume) {
            (volume.formatted, volume.used) = (true, used);
        }
    }
}

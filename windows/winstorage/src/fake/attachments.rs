//! Attaches and detaches disks with their contents, and reads and writes their bytes.

use super::FakeHost;
use super::disks::FakeDisk;

impl FakeHost {
    /// Attaches the disk with this serial number, offline. It is the most recently detached disk with its contents, or
    /// an
    /// empty disk of `size` bytes.
    pub fn attach_disk(&self, number: u32, serial: &str, size: u64) {
        let disks = &mut self.state().disks;
        let away = disks.away.iter().position(|disk| disk.serial == serial).map(|at| disks.away.remove(at));
        let mut disk = away.unwrap_or_else(|| FakeDisk::raw(serial, size, false));
        (disk.size, disk.is_online) = (size, false);
        disks.disks.insert(number, disk);
    }

    /// Detaches a disk with its contents, without notice.
    pub fn detach_disk(&self, number: u32) {
        let disks = &mut self.state().disks;
        let gone = disks.disks.remove(&number);
        disks.away.extend(gone);
    }

    /// Writes bytes to a disk, regardless of partition tables.
    pub fn write_disk(&self, number: u32, offset: u64, bytes: &[u8]) {
        if let Some(disk) = self.state().disks.disks.get_mut(&number) {
            disk.content.insert(offset, bytes.to_vec());
        }
    }
}

impl FakeDisk {
    /// Returns the bytes of a range, zero where nothing was written.
    pub(super) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(u64::try_from(length).unwrap_or(u64::MAX)));
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(offset)).unwrap_or(0)];
        for (start, written) in &self.content {
            for (at, byte) in (*start..).zip(written).filter(|(at, _)| (offset..end).contains(at)) {
                bytes[usize::try_from(at - offset).unwrap_or(0)] = *byte;
            }
        }
        bytes
    }
}

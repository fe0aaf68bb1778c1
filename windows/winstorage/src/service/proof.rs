//! Proves that a disk is blank, immediately before a write and while no other operation changes the disk.
//!
//! Windows reports a disk as raw, or a volume as unformatted, if it recognises no file system. That includes ext4, a
//! damaged NTFS and a locked BitLocker volume. Only zero bytes that were read prove that a write destroys no data.

use super::contents::Contents;
use super::guard::Ours;
use crate::host::Disk;
use crate::{Storage, StorageError};

impl Storage {
    /// Proves that a disk without partitions is blank, unless `--allow-reformat` is set.
    pub(super) fn prove_blank_disk(&self, operation: &'static str, disk: &Disk) -> Result<(), StorageError> {
        if self.policy.allow_reformat {
            return Ok(());
        }
        match self.contents(disk, &disk.serial)? {
            Contents::Blank => self.same_disk(operation, disk),
            found => Err(not_blank(operation, format!("disk {}", disk.number), &found)),
        }
    }

    /// Proves that a volume without a file system is the only content of its disk, which is otherwise blank.
    pub(super) fn prove_blank_volume(&self, operation: &'static str, ours: &Ours) -> Result<(), StorageError> {
        match self.contents(&ours.disk, &ours.disk.serial)? {
            Contents::BlankVolume(volume) if volume == ours.row.id => self.same_disk(operation, &ours.disk),
            found => Err(not_blank(operation, format!("volume {}", ours.row.id), &found)),
        }
    }

    /// Checks that the disk number still belongs to the same disk. The bytes were read by number, and Windows may have
    /// given the number to another disk.
    fn same_disk(&self, operation: &'static str, disk: &Disk) -> Result<(), StorageError> {
        let is_same = self.host.disk(disk.number)?.is_some_and(|now| now.is_same_disk(disk));
        is_same.then_some(()).ok_or(StorageError::DiskReplaced { operation, disk: disk.number })
    }
}

fn not_blank(operation: &'static str, object: String, found: &Contents) -> StorageError {
    StorageError::NotBlank { operation, object, contents: found.to_string() }
}

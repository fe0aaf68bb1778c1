//! The proof that a disk is blank, taken right before it is written to and while nobody else changes it.
//!
//! Windows calls a disk raw, or a volume unformatted, when it recognises nothing there: a file system of Linux, a damaged NTFS and a locked
//! BitLocker volume all look so. Only bytes that were read and were zero prove that nothing is lost.

use super::contents::Contents;
use super::guard::Ours;
use crate::host::Disk;
use crate::{Storage, StorageError};

impl Storage {
    /// Proves that a disk without partitions holds nothing, unless `--allow-reformat` is given.
    ///
    /// # Errors
    /// It holds something, is offline, could not be read, or was replaced by another disk meanwhile.
    pub(super) fn prove_blank_disk(&self, operation: &'static str, disk: &Disk) -> Result<(), StorageError> {
        if self.policy.allow_reformat {
            return Ok(());
        }
        match self.contents(disk, &disk.serial)? {
            Contents::Blank => self.same_disk(operation, disk),
            found => Err(not_blank(operation, format!("disk {}", disk.number), &found)),
        }
    }

    /// Proves that a volume without a file system is the only one of a disk that holds nothing else.
    ///
    /// # Errors
    /// As [`Self::prove_blank_disk`].
    pub(super) fn prove_blank_volume(&self, operation: &'static str, ours: &Ours) -> Result<(), StorageError> {
        match self.contents(&ours.disk, &ours.disk.serial)? {
            Contents::BlankVolume(volume) if volume == ours.row.id => self.same_disk(operation, &ours.disk),
            found => Err(not_blank(operation, format!("volume {}", ours.row.id), &found)),
        }
    }

    /// The bytes were read by the disk's number, which may be another disk's by now.
    fn same_disk(&self, operation: &'static str, disk: &Disk) -> Result<(), StorageError> {
        let is_same = self.host.disk(disk.number)?.is_some_and(|now| now.is_same_disk(disk));
        is_same.then_some(()).ok_or(StorageError::DiskReplaced { operation, disk: disk.number })
    }
}

fn not_blank(operation: &'static str, object: String, found: &Contents) -> StorageError {
    StorageError::NotBlank { operation, object, contents: found.to_string() }
}

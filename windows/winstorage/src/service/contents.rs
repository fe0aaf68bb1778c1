//! Detects the contents of a disk, for a program that creates a file system only on a blank disk.
//!
//! A disk that Windows reports as raw may contain a file system that Windows does not recognise, for example ext4. So a
//! disk is *blank* only if all bytes that were read are zero: both ends of the disk, and one page in each of many equal
//! stretches between them.
//!
//! Decision: `docs/dev/decisions/0029-prove-windows-disks-in-csi-proxy.md`.

use std::fmt;

use crate::host::{Disk, Partition, PartitionKind, PartitionStyle};
use crate::types::{DiskNumber, VolumeGuid};
use crate::{Storage, StorageError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// Blank: no partitions except Microsoft Reserved, and all bytes that were read are zero.
    Blank,
    /// One partition that is not online yet. An interrupted [`Storage::partition_disk`] leaves it behind.
    Offline,
    /// One partition whose volume Windows does not show yet.
    Coming,
    /// One partition without a file system, and all bytes that were read are zero.
    BlankVolume(VolumeGuid),
    FileSystem(VolumeGuid),
    Foreign(String),
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("nothing"),
            Self::Offline => f.write_str("an offline partition"),
            Self::Coming => f.write_str("a partition whose volume does not appear in Windows yet"),
            Self::BlankVolume(volume) => write!(f, "the blank volume {volume}"),
            Self::FileSystem(volume) => write!(f, "a file system, on volume {volume}"),
            Self::Foreign(what) => f.write_str(what),
        }
    }
}

/// Number of bytes to read at each end of the disk. Windows reserves less before a first partition.
const END: u64 = 36 << 20;
const CHUNK: usize = 1 << 20;
const CHUNK_BYTES: u64 = 1 << 20;
/// Number of stretches between the ends of the disk. One page of each is read.
const STRETCHES: u64 = 1024;
static ZEROS: [u8; CHUNK] = [0; CHUNK];
const PAGE: usize = 4096;
const PAGE_BYTES: u64 = 4096;
/// Number of bytes that a GPT uses at either end, even with sectors of 4 KiB.
const TABLE: u64 = 64 << 10;

impl Storage {
    /// Returns the contents of a disk that is online. `seed` selects the places that are read, so the same seed repeats
    /// the same reads. A failed read never counts as blank.
    pub fn disk_contents(&self, number: DiskNumber, seed: &str) -> Result<Contents, StorageError> {
        let disk = self.changeable_disk("use of the disk", number)?;
        self.contents(&disk, seed)
    }

    pub(super) fn contents(&self, disk: &Disk, seed: &str) -> Result<Contents, StorageError> {
        let number = disk.number;
        if disk.is_offline {
            return Err(StorageError::DiskOffline(number));
        }
        let partitions = self.host.partitions(number, None)?;
        let used: Vec<&Partition> = partitions.iter().filter(|one| one.kind != PartitionKind::Reserved).collect();
        let data: Vec<&Partition> = used.iter().copied().filter(|one| one.kind == PartitionKind::Data).collect();
        // The purpose of partitions on an MBR disk is not known, so use all of them.
        let candidates = if data.is_empty() { &used } else { &data };
        match (disk.style, candidates.as_slice()) {
            (PartitionStyle::Raw, []) => self.blank(number, (0, disk.size), seed),
            (PartitionStyle::Gpt, []) => self.blank(number, (TABLE, disk.size.saturating_sub(TABLE)), seed),
            (PartitionStyle::Mbr, []) => Ok(Contents::Foreign("an MBR without partitions".to_owned())),
            (_, [only]) => {
                let may_be_ours = used.len() == 1 && only.kind == PartitionKind::Data;
                let unused = (TABLE, disk.size.saturating_sub(TABLE));
                self.in_partition(only, may_be_ours.then_some(unused), seed)
            }
            (_, several) => self.among(several),
        }
    }

    fn blank(&self, disk: DiskNumber, within: (u64, u64), seed: &str) -> Result<Contents, StorageError> {
        Ok(match self.first_byte(disk, within, seed)? {
            None => Contents::Blank,
            Some(at) => Contents::Foreign(format!("nonzero bytes at offset {at}, but no partition")),
        })
    }

    /// Checks a single partition. `unused` is the range that must be zero if an interrupted call created the partition
    /// but no file system.
    fn in_partition(
        &self,
        partition: &Partition,
        unused: Option<(u64, u64)>,
        seed: &str,
    ) -> Result<Contents, StorageError> {
        if partition.is_offline {
            return Ok(if unused.is_some() {
                Contents::Offline
            } else {
                Contents::Foreign("an offline partition".to_owned())
            });
        }
        let volumes = self.host.volumes_of_partition(partition)?;
        let [volume] = &volumes[..] else {
            return Ok(match volumes.len() {
                0 => Contents::Coming,
                count => Contents::Foreign(format!("{count} volumes in one partition")),
            });
        };
        let Some(row) = self.host.volume(volume)? else { return Ok(Contents::Coming) };
        if row.is_formatted {
            return Ok(Contents::FileSystem(volume.clone()));
        }
        let unknown = || Contents::Foreign("a partition with unknown contents".to_owned());
        let Some(unused) = unused else { return Ok(unknown()) };
        Ok(match self.first_byte(partition.disk, unused, seed)? {
            None => Contents::BlankVolume(volume.clone()),
            Some(at) => {
                Contents::Foreign(format!("a partition without a known file system, and nonzero bytes at offset {at}"))
            }
        })
    }

    fn among(&self, partitions: &[&Partition]) -> Result<Contents, StorageError> {
        let mut formatted = Vec::new();
        for partition in partitions {
            for volume in self.host.volumes_of_partition(partition)? {
                if self.host.volume(&volume)?.is_some_and(|row| row.is_formatted) {
                    formatted.push(volume);
                }
            }
        }
        let count = formatted.len();
        Ok(match <[VolumeGuid; 1]>::try_from(formatted) {
            Ok([only]) => Contents::FileSystem(only),
            Err(_) => {
                let all = partitions.len();
                Contents::Foreign(format!("{all} partitions, {count} of them with a known file system"))
            }
        })
    }

    fn first_byte(&self, disk: DiskNumber, (start, end): (u64, u64), seed: &str) -> Result<Option<u64>, StorageError> {
        // The partition tables end at a page boundary. The disk may end elsewhere, so its last page is read only up to
        // the last byte.
        let head = (start..end.min(start.saturating_add(END))).step_by(CHUNK);
        let tail_from = (end.saturating_sub(END) / CHUNK_BYTES * CHUNK_BYTES).max(start);
        let tail = (tail_from..end).step_by(CHUNK);
        for at in head.chain(tail) {
            let length = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK).next_multiple_of(PAGE);
            if let Some(byte) = self.byte_in(disk, at, length, end)? {
                return Ok(Some(byte));
            }
        }
        let stretch = (end - start) / STRETCHES / PAGE_BYTES;
        for (index, random) in (0..STRETCHES).zip(numbers(seed)).filter(|_| stretch > 0) {
            let at = (start / PAGE_BYTES + index * stretch + random % stretch) * PAGE_BYTES;
            if let Some(byte) = self.byte_in(disk, at, PAGE, end)? {
                return Ok(Some(byte));
            }
        }
        Ok(None)
    }

    fn byte_in(&self, disk: DiskNumber, at: u64, length: usize, end: u64) -> Result<Option<u64>, StorageError> {
        let bytes = self.host.native().read_disk(disk, at, length)?;
        let wanted = usize::try_from(end - at).unwrap_or(length).min(length);
        if bytes.len() < wanted {
            let what = format!("short read: {} of {wanted} bytes at offset {at}", bytes.len());
            return Err(crate::host::HostError::malformed("ReadFile", format!("disk {disk}"), what).into());
        }
        // Compare the whole buffer first, because nearly all of it is zero.
        if ZEROS.starts_with(&bytes[..wanted]) {
            return Ok(None);
        }
        let found = bytes.iter().take(wanted).position(|byte| *byte != 0);
        Ok(found.and_then(|index| u64::try_from(index).ok()).map(|index| at + index))
    }
}

/// Returns pseudo-random numbers that depend only on the seed (FNV-1a, then splitmix64).
fn numbers(seed: &str) -> impl Iterator<Item = u64> {
    let hash = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut state = seed.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

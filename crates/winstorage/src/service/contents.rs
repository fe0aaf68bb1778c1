//! What is on a disk, for a program that would put a file system on it only where nothing is.
//!
//! A disk that Windows calls raw may hold a file system that Windows does not know, ext4 for one; so *blank* is said only of what was
//! read and was zero: both ends of the disk, and a page in each of many equal stretches between them.
//!
//! Decision: `docs/decisions/0029-prove-windows-disks-in-csi-proxy.md`.

use std::fmt;

use crate::host::{Disk, Partition, PartitionKind, PartitionStyle};
use crate::types::{DiskNumber, VolumeGuid};
use crate::{Storage, StorageError};

/// What is on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// Nothing: no partition but what Windows reserves, and zeros wherever it was read.
    Blank,
    /// One partition that is not online yet, as an interrupted [`Storage::partition_disk`] leaves behind.
    Offline,
    /// One partition, and Windows does not show its volume yet.
    Coming,
    /// One partition without a file system, and zeros wherever it was read.
    BlankVolume(VolumeGuid),
    /// The one volume with a file system.
    FileSystem(VolumeGuid),
    /// Something else: it may be data.
    Foreign(String),
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("nothing"),
            Self::Offline => f.write_str("a partition that is offline"),
            Self::Coming => f.write_str("a partition whose volume Windows does not show yet"),
            Self::BlankVolume(volume) => write!(f, "the blank volume {volume}"),
            Self::FileSystem(volume) => write!(f, "a file system, on volume {volume}"),
            Self::Foreign(what) => f.write_str(what),
        }
    }
}

/// Of each end of the disk so many bytes are read: past what Windows reserves before a first partition.
const END: u64 = 36 << 20;
const CHUNK: usize = 1 << 20;
const CHUNK_BYTES: u64 = 1 << 20;
/// A page is read in so many equal stretches of what lies between.
const STRETCHES: u64 = 1024;
/// As long as the longest read.
static ZEROS: [u8; CHUNK] = [0; CHUNK];
const PAGE: usize = 4096;
const PAGE_BYTES: u64 = 4096;
/// What a GPT takes at either end, also with sectors of 4 KiB.
const TABLE: u64 = 64 << 10;

impl Storage {
    /// What is on the disk, which is online. `seed` chooses the places that are read: a repeated look at one thing reads the same.
    ///
    /// # Errors
    /// The disk is not there, offline or Windows' own, or the host failed: a read that fails never counts as blank.
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
        // A disk with an MBR tells of no partition what it is for.
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
            Some(at) => Contents::Foreign(format!("no partition, and bytes that are not zero at offset {at}")),
        })
    }

    /// `unused`: what must be zero where the partition has no file system and may all the same be ours.
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
                Contents::Foreign("a partition that is offline".to_owned())
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
        let unknown = || Contents::Foreign("a partition with nothing that Windows knows".to_owned());
        let Some(unused) = unused else { return Ok(unknown()) };
        Ok(match self.first_byte(partition.disk, unused, seed)? {
            None => Contents::BlankVolume(volume.clone()),
            Some(at) => Contents::Foreign(format!(
                "a partition without a file system that Windows knows, and bytes that are not zero at offset {at}"
            )),
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
                Contents::Foreign(format!("{all} partitions, {count} of them with a file system that Windows knows"))
            }
        })
    }

    /// Where the first byte that is not zero was seen.
    fn first_byte(&self, disk: DiskNumber, (start, end): (u64, u64), seed: &str) -> Result<Option<u64>, StorageError> {
        // The tables' edges are whole pages; a disk's last bytes may be none, and are read to their end.
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
        let bytes = self.host.read_disk(disk, at, length)?;
        let wanted = usize::try_from(end - at).unwrap_or(length).min(length);
        if bytes.len() < wanted {
            let what = format!("{} bytes of {wanted} at offset {at}", bytes.len());
            return Err(crate::host::HostError::malformed("ReadFile", format!("disk {disk}"), what).into());
        }
        // Compared as a whole first: nearly all of it is zero, and there is much of it.
        if ZEROS.starts_with(&bytes[..wanted]) {
            return Ok(None);
        }
        let found = bytes.iter().take(wanted).position(|byte| *byte != 0);
        Ok(found.and_then(|index| u64::try_from(index).ok()).map(|index| at + index))
    }
}

/// Numbers that follow from the seed alone (FNV-1a, then splitmix64).
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

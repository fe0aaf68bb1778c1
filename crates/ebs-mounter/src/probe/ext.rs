//! Parses the superblock of ext2, ext3 and ext4.

use std::io;

use super::ext_geometry::Geometry;
use super::reach::Reach;
use super::read::{Area, be32, crc32c, le16, le32};
use crate::fs_type::FsType;

/// Offset of the primary superblock, independent of the block size.
pub(crate) const OFFSET: u64 = 1024;
const LENGTH: usize = 1024;
const MAGIC: u16 = 0xef53;

/// The features of ext2: first the incompatible ones (file types, meta block groups), then the read-only compatible
/// ones (sparse superblocks, large files, tree directories).
const EXT2_INCOMPAT: u32 = 0x2 | 0x10;
const EXT2_RO_COMPAT: u32 = 0x1 | 0x2 | 0x4;
/// The features that ext3 adds: a journal to replay (incompatible), and a journal (compatible).
const RECOVER: u32 = 0x4;
const HAS_JOURNAL: u32 = 0x4;
const INCOMPAT_64BIT: u32 = 0x80;
const RO_COMPAT_BIGALLOC: u32 = 0x200;
const INCOMPAT_JOURNAL_DEVICE: u32 = 0x8;
const RO_COMPAT_METADATA_CHECKSUM: u32 = 0x400;
/// Offset of the flag for a copy of the journal's block list, value of the flag, and offset of the copy.
const JOURNAL_BACKUP_TYPE: usize = 0xfd;
const BACKUP_OF_BLOCKS: u8 = 1;
const JOURNAL_BACKUP: usize = 0x10c;
const EXTENT_MAGIC: u16 = 0xf30a;
const STATE_VALID: u16 = 0x1;
const STATE_ERRORS: u16 = 0x2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtSuperblock {
    blocks: u64,
    log_block_size: u32,
    inodes: u32,
    blocks_per_group: u32,
    geometry: Geometry,
    state: u16,
    /// Number of errors that the kernel has counted since the last check.
    counted_errors: u32,
    compat: u32,
    incompat: u32,
    ro_compat: u32,
    checksum_is_valid: bool,
    /// The first block of the journal, if the superblock has a copy of the journal's block list.
    journal_block: Option<u64>,
}

impl ExtSuperblock {
    /// Returns ext2, ext3 or ext4 according to the features in use, with the same rules as blkid and the kernel.
    pub fn fs_type(&self) -> FsType {
        let journal = self.compat & HAS_JOURNAL != 0;
        let fits = |incompat: u32| self.incompat & !incompat == 0 && self.ro_compat & !EXT2_RO_COMPAT == 0;
        if !journal && fits(EXT2_INCOMPAT) {
            FsType::Ext2
        } else if journal && fits(EXT2_INCOMPAT | RECOVER) {
            FsType::Ext3
        } else {
            FsType::Ext4
        }
    }

    /// True if checksum and fields are valid. mke2fs writes the primary superblock last, so the rest is complete too.
    pub fn is_complete(&self) -> bool {
        self.checksum_is_valid
            && self.blocks > 0
            && self.inodes > 0
            && self.log_block_size <= 6
            && self.blocks_per_group > 0
            && self.incompat & INCOMPAT_JOURNAL_DEVICE == 0
    }

    /// Returns the size of a file system block in bytes.
    pub fn block_size(&self) -> u64 {
        1024 << self.log_block_size.min(6)
    }

    /// Returns the size of the file system in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.block_size())
    }

    /// True if the file system allocates clusters of several blocks (the feature bigalloc).
    pub fn has_clusters(&self) -> bool {
        self.ro_compat & RO_COMPAT_BIGALLOC != 0
    }

    pub(crate) fn reach(&self, device: u64) -> Reach {
        self.geometry.reach(device)
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the offset of the journal's superblock in bytes, if the superblock has a copy of its block list.
    pub(super) fn journal_offset(&self) -> Option<u64> {
        self.journal_block?.checked_mul(self.block_size())
    }

    /// Returns true if the superblock has recorded errors.
    pub fn has_error_state(&self) -> bool {
        self.state & STATE_ERRORS != 0
    }

    /// True if resize2fs may have been interrupted: it sets the kernel's error flag without an error count.
    pub fn may_be_half_grown(&self) -> bool {
        self.has_error_state() && self.counted_errors == 0
    }

    /// True if a check must precede the mount: the kernel recorded errors, or no journal repairs an unclean unmount.
    pub fn needs_check(&self) -> bool {
        let journal = self.compat & HAS_JOURNAL != 0;
        self.has_error_state() || (!journal && self.state & STATE_VALID == 0)
    }
}

pub(crate) fn read(area: &Area<'_>) -> io::Result<Option<ExtSuperblock>> {
    Ok(area.read_within(OFFSET, LENGTH)?.and_then(|bytes| parse(&bytes)))
}

/// Parses the 1,024 bytes of a superblock. Returns `None` without its magic number.
pub(super) fn parse(bytes: &[u8]) -> Option<ExtSuperblock> {
    if bytes.len() < LENGTH || le16(bytes, 0x38) != MAGIC {
        return None;
    }
    let (compat, incompat) = (le32(bytes, 0x5c), le32(bytes, 0x60));
    let ro_compat = le32(bytes, 0x64);
    let high = if incompat & INCOMPAT_64BIT != 0 { le32(bytes, 0x150) } else { 0 };
    let checksum = ro_compat & RO_COMPAT_METADATA_CHECKSUM == 0 || crc32c(!0, &bytes[..0x3fc]) == le32(bytes, 0x3fc);
    Some(ExtSuperblock {
        blocks: u64::from(le32(bytes, 0x4)) | u64::from(high) << 32,
        inodes: le32(bytes, 0x0),
        log_block_size: le32(bytes, 0x18),
        blocks_per_group: le32(bytes, 0x20),
        geometry: Geometry::parse(bytes),
        state: le16(bytes, 0x3a),
        counted_errors: le32(bytes, 0x194),
        compat,
        incompat,
        ro_compat,
        checksum_is_valid: checksum,
        journal_block: if compat & HAS_JOURNAL == 0 { None } else { journal_block(bytes) },
    })
}

/// Returns the first block of the journal, from the superblock's copy of its block list (an extent tree or plain block
/// numbers).
fn journal_block(superblock: &[u8]) -> Option<u64> {
    if superblock[JOURNAL_BACKUP_TYPE] != BACKUP_OF_BLOCKS {
        return None;
    }
    let list = &superblock[JOURNAL_BACKUP..];
    if le16(list, 0) != EXTENT_MAGIC {
        return Some(u64::from(le32(list, 0))).filter(|block| *block != 0);
    }
    let (entries, depth) = (le16(list, 2), le16(list, 6));
    let first_block_of_file = le32(list, 12);
    let block = u64::from(le16(list, 18)) << 32 | u64::from(le32(list, 20));
    (entries > 0 && depth == 0 && first_block_of_file == 0 && block != 0).then_some(block)
}

const JOURNAL_LENGTH: usize = 0x24;
const JOURNAL_MAGIC: u32 = 0xc03b_3998;
const JOURNAL_SUPERBLOCKS: [u32; 2] = [3, 4];

/// True if the journal records an error. When the kernel aborts the journal, it writes the error there, and marks the
/// superblock later, at the latest at the next mount. e2fsck reads the journal's error too. False if the journal's
/// position is unknown, since the next mount then reveals the error.
pub(crate) fn has_recorded_error(area: &Area<'_>, superblock: &ExtSuperblock) -> io::Result<bool> {
    let Some(at) = superblock.journal_offset() else { return Ok(false) };
    let Some(bytes) = area.read_within(at, JOURNAL_LENGTH)? else { return Ok(false) };
    let is_journal = be32(&bytes, 0) == JOURNAL_MAGIC && JOURNAL_SUPERBLOCKS.contains(&be32(&bytes, 4));
    Ok(is_journal && be32(&bytes, 0x20) != 0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Written;
    use super::*;

    /// Returns a complete superblock of 1,000 blocks with changes, each given by offset, number of bytes and value.
    fn with(changes: &[(usize, usize, u64)]) -> ExtSuperblock {
        let mut bytes = [0; LENGTH];
        let whole = [(0x0, 4, 500), (0x4, 4, 1000), (0x20, 4, 8192), (0x38, 2, 0xef53), (0x3a, 2, 1)];
        for (at, length, number) in whole.iter().chain(changes) {
            bytes[*at..at + length].copy_from_slice(&number.to_le_bytes()[..*length]);
        }
        parse(&bytes).unwrap()
    }

    #[test]
    fn ext_with_a_missing_or_invalid_field_is_not_complete() {
        assert!(with(&[]).is_complete());
        assert!(with(&[(0x18, 4, 6)]).is_complete(), "blocks of 64 KiB");
        for (at, length, number) in [(0x0, 4, 0), (0x4, 4, 0), (0x20, 4, 0), (0x18, 4, 7), (0x60, 4, 8)] {
            assert!(!with(&[(at, length, number)]).is_complete(), "{at:#x} is {number}");
        }
        // Sets the checksum feature, but the superblock has no valid checksum.
        assert!(!with(&[(0x64, 4, 0x400)]).is_complete());
        assert_eq!(parse(&[0; LENGTH]), None);
        let mut short = [0; LENGTH - 1];
        short[0x38..0x3a].copy_from_slice(&MAGIC.to_le_bytes());
        assert_eq!(parse(&short), None, "the buffer is too short");
    }

    #[test]
    fn ext_with_errors_or_unclean_state_and_no_journal_needs_check() {
        let journal = (0x5c, 4, 4);
        let state = |state| (0x3a, 2, state);
        assert!(!with(&[state(1)]).needs_check());
        assert!(with(&[state(0)]).needs_check(), "no journal, not clean");
        assert!(!with(&[journal, state(0)]).needs_check(), "the journal repairs it");
        assert!(with(&[journal, state(3)]).needs_check(), "errors");
        assert!(with(&[state(2)]).needs_check());
    }

    #[test]
    fn ext_with_error_flag_but_no_error_count_may_be_half_grown() {
        assert!(!with(&[(0x3a, 2, 1)]).may_be_half_grown());
        assert!(with(&[(0x3a, 2, 3)]).may_be_half_grown());
        assert!(!with(&[(0x3a, 2, 3), (0x194, 4, 1)]).may_be_half_grown());
    }

    #[test]
    fn journal_is_found_by_extents_and_by_block_numbers() {
        let journal = (0x5c, 4, 4);
        let at = |changes: &[(usize, usize, u64)]| with(changes).journal_offset();
        let plain = [journal, (0xfd, 1, 1), (0x10c, 4, 700)];
        assert_eq!(at(&plain), Some(700 * 1024));
        assert_eq!(at(&[(0x10c, 4, 700), (0xfd, 1, 1)]), None, "no journal");
        assert_eq!(at(&[journal, (0x10c, 4, 700)]), None, "no copy");
        assert_eq!(at(&[journal, (0xfd, 1, 1)]), None, "no block");
        let extent = [journal, (0xfd, 1, 1), (0x10c, 2, 0xf30a), (0x10e, 2, 1), (0x11e, 2, 1), (0x120, 4, 5)];
        assert_eq!(at(&extent), Some(((1 << 32) + 5) * 1024));
        for (place, length, number) in [(0x10e, 2, 0), (0x112, 2, 1), (0x118, 4, 9)] {
            let changed: Vec<_> = extent.into_iter().chain([(place, length, number)]).collect();
            assert_eq!(at(&changed), None, "{place:#x} is {number}");
        }
    }

    #[test]
    fn ext_block_count_uses_its_high_half_only_with_64bit() {
        assert_eq!((with(&[]).block_size(), with(&[]).bytes()), (1024, 1_024_000));
        assert_eq!(with(&[(0x18, 4, 2)]).bytes(), 4_096_000);
        assert_eq!(with(&[(0x150, 4, 1)]).bytes(), 1_024_000);
        assert_eq!(with(&[(0x60, 4, 0x80), (0x150, 4, 1)]).bytes(), ((1 << 32) + 1000) * 1024);
    }

    #[test]
    fn ext_type_is_derived_from_the_superblock_features() {
        for (compat, incompat, ro_compat, fs_type) in [
            (0, 0x12, 0x7, FsType::Ext2),
            (4, 0x12, 0x7, FsType::Ext3),
            (4, 0x16, 0x7, FsType::Ext3),
            (0, 0x16, 0x7, FsType::Ext4),
            (0, 0x42, 0x7, FsType::Ext4),
            (4, 0x42, 0x7, FsType::Ext4),
            (4, 0x2, 0x8, FsType::Ext4),
            (0, 0x2, 0x8, FsType::Ext4),
        ] {
            let found = with(&[(0x5c, 4, compat), (0x60, 4, incompat), (0x64, 4, ro_compat)]).fs_type();
            assert_eq!(found, fs_type, "{compat:#x} {incompat:#x} {ro_compat:#x}");
        }
    }

    const BLOCK: u64 = 700;

    /// Returns whether the driver finds an error in a journal superblock with these big-endian numbers, each given by
    /// offset and value.
    fn error_in(numbers: &[(usize, u32)]) -> bool {
        let mut superblock = vec![0; 1024];
        superblock[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        superblock[0x5c] = 4;
        superblock[0xfd] = 1;
        superblock[0x10c..0x110].copy_from_slice(&u32::try_from(BLOCK).unwrap().to_le_bytes());
        let superblock = parse(&superblock).unwrap();
        let mut journal = vec![0; 1024];
        for (at, number) in numbers {
            journal[*at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        let device = Written(vec![(BLOCK * 1024, journal)]);
        assert!(!has_recorded_error(&Area::new(&device, BLOCK * 1024), &superblock).unwrap(), "the device ends before");
        has_recorded_error(&Area::new(&device, 1 << 20), &superblock).unwrap()
    }

    #[test]
    fn error_is_found_only_in_a_journal_superblock() {
        let eio = (0x20, (-5_i32).cast_unsigned());
        for version in JOURNAL_SUPERBLOCKS {
            assert!(error_in(&[(0, JOURNAL_MAGIC), (4, version), eio]));
            assert!(!error_in(&[(0, JOURNAL_MAGIC), (4, version)]));
        }
        assert!(!error_in(&[(0, JOURNAL_MAGIC), (4, 1), eio]), "a descriptor block");
        assert!(!error_in(&[(0, JOURNAL_MAGIC + 1), (4, 4), eio]));
    }
}

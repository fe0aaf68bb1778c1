//! The superblock of XFS.

use std::io;

use super::checksum::crc32c;
use super::read::{Area, be16, be32, be64, le32};

const MAGIC: &[u8] = b"XFSB";
/// The longest sector, and so the longest superblock.
const MAX_SECTOR: usize = 32 * 1024;
/// Where the checksum of a version 5 superblock stands; it is little-endian among big-endian fields.
const CHECKSUM: usize = 224;
/// An allocation group of less than this is left unused by mkfs.xfs and xfs_growfs.
const MIN_GROUP_BYTES: u64 = 16 << 20;

/// What a superblock says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XfsSuperblock {
    block_size: u32,
    blocks: u64,
    version: u16,
    log_blocks: u32,
    in_progress: bool,
    checksum_is_valid: bool,
}

impl XfsSuperblock {
    /// True when no mkfs was interrupted over it and fields and checksum are valid.
    pub fn is_complete(&self) -> bool {
        !self.in_progress
            && self.checksum_is_valid
            && self.blocks > 0
            && (512..=65_536).contains(&self.block_size)
            && self.block_size.is_power_of_two()
            && matches!(self.version, 4 | 5)
    }

    /// Bytes of the data section.
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_size))
    }

    /// Bytes of the internal log, which statfs(2) does not count.
    pub(crate) fn log_bytes(&self) -> u64 {
        u64::from(self.log_blocks) * u64::from(self.block_size)
    }

    pub(crate) fn growth_step(&self) -> u64 {
        MIN_GROUP_BYTES
    }
}

/// The primary superblock, when its magic number is there.
pub(crate) fn read(area: &Area<'_>) -> io::Result<Option<XfsSuperblock>> {
    let Some(first) = area.read_within(0, 512)? else { return Ok(None) };
    if !first.starts_with(MAGIC) {
        return Ok(None);
    }
    let sector = usize::from(be16(&first, 102));
    let whole = if (512..=MAX_SECTOR).contains(&sector) { area.read_within(0, sector)? } else { None };
    Ok(Some(parse(&first, whole.as_deref())))
}

/// From the first 512 bytes and, where its length makes sense, the whole sector.
fn parse(first: &[u8], whole: Option<&[u8]>) -> XfsSuperblock {
    let version = be16(first, 100) & 0xf;
    let checksum_is_valid = match whole {
        None => false,
        Some(_) if version < 5 => true,
        Some(whole) => {
            let crc = crc32c(!0, &whole[..CHECKSUM]);
            let crc = crc32c(crc, &[0; 4]);
            !crc32c(crc, &whole[CHECKSUM + 4..]) == le32(whole, CHECKSUM)
        }
    };
    XfsSuperblock {
        block_size: be32(first, 4),
        blocks: be64(first, 8),
        version,
        // A log on another device has no start in this one.
        log_blocks: if be64(first, 48) == 0 { 0 } else { be32(first, 96) },
        in_progress: first[126] != 0,
        checksum_is_valid,
    }
}

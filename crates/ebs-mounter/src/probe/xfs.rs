//! Parses the superblock of XFS.

use std::io;

use super::read::{Area, be16, be32, be64, crc32c, le32};

const MAGIC: &[u8] = b"XFSB";
/// Maximum size of a sector, and thus of the superblock, in bytes.
const MAX_SECTOR: usize = 32 * 1024;
/// Offset of the checksum of a version 5 superblock. Unlike the other fields, it is little-endian.
const CHECKSUM: usize = 224;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XfsSuperblock {
    block_size: u32,
    blocks: u64,
    version: u16,
    in_progress: bool,
    checksum_is_valid: bool,
}

impl XfsSuperblock {
    /// True if fields and checksum are valid and no mkfs was interrupted.
    pub fn is_complete(&self) -> bool {
        !self.in_progress
            && self.checksum_is_valid
            && self.blocks > 0
            && (512..=65_536).contains(&self.block_size)
            && self.block_size.is_power_of_two()
            && matches!(self.version, 4 | 5)
    }

    /// Returns the size of the file system in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_size))
    }
}

pub(crate) fn read(area: &Area<'_>) -> io::Result<Option<XfsSuperblock>> {
    let Some(first) = area.read_within(0, 512)? else { return Ok(None) };
    if !first.starts_with(MAGIC) {
        return Ok(None);
    }
    let sector = usize::from(be16(&first, 102));
    let whole = if (512..=MAX_SECTOR).contains(&sector) { area.read_within(0, sector)? } else { None };
    Ok(Some(parse(&first, whole.as_deref())))
}

/// Parses the superblock in the first 512 bytes. `whole` is the whole sector, or `None` if the sector's size is
/// invalid.
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
        in_progress: first[126] != 0,
        checksum_is_valid,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Written;
    use super::*;

    /// Returns a complete superblock of version 4, which has no checksum, with some bytes changed.
    fn with(changes: &[(usize, &[u8])]) -> XfsSuperblock {
        let mut bytes = vec![0; 512];
        let whole: [(usize, &[u8]); 4] =
            [(0, b"XFSB\0\0\x10\0"), (8, &[0, 0, 0, 0, 0, 2, 0, 0]), (100, &[0xb4, 0xa4]), (102, &[2, 0])];
        for (at, piece) in whole.iter().chain(changes) {
            bytes[*at..at + piece.len()].copy_from_slice(piece);
        }
        let device = Written(vec![(0, bytes)]);
        read(&Area::new(&device, 1 << 30)).unwrap().unwrap()
    }

    #[test]
    fn xfs_with_format_in_progress_or_bad_numbers_is_not_complete() {
        assert!(with(&[]).is_complete());
        for block in [512_u32, 65_536] {
            assert!(with(&[(4, &block.to_be_bytes())]).is_complete(), "blocks of {block}");
        }
        let impossible: [(usize, &[u8]); 9] = [
            (126, &[1]),
            (8, &[0; 8]),
            (4, &256_u32.to_be_bytes()),
            (4, &131_072_u32.to_be_bytes()),
            (4, &4097_u32.to_be_bytes()),
            (100, &[0xb4, 0xa3]),
            (100, &[0xb4, 0xa6]),
            (100, &[0xb4, 0xa5]),
            (102, &[0, 0]),
        ];
        for (at, bytes) in impossible {
            assert!(!with(&[(at, bytes)]).is_complete(), "{bytes:?} at {at}");
        }
        // The maximum sector size, and one byte more.
        assert!(with(&[(102, &32_768_u16.to_be_bytes())]).is_complete());
        assert!(!with(&[(102, &32_769_u16.to_be_bytes())]).is_complete());
    }

    #[test]
    fn xfs_size_is_its_block_count_and_xfs_can_fill_its_device() {
        assert_eq!(with(&[]).bytes(), 0x2_0000 * 4096);
        let reach = super::super::Superblock::Xfs(with(&[])).reach(1 << 40);
        assert_eq!((reach.bytes, reach.least_growth, reach.limit), (1 << 40, 16 << 20, None));
    }

    #[test]
    fn area_without_room_or_magic_has_no_xfs_superblock() {
        let letters = Written(vec![(0, b"XFSB".to_vec())]);
        assert_eq!(read(&Area::new(&letters, 511)).unwrap(), None);
        assert!(read(&Area::new(&letters, 512)).unwrap().is_some());
        assert_eq!(read(&Area::new(&Written(Vec::new()), 512)).unwrap(), None);
    }
}

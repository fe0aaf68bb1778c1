//! Reads the error number that the kernel writes into the journal of an ext file system when it aborts the journal. The
//! kernel marks the superblock of the file system later, at the latest at the next mount. e2fsck reads the number too.

use std::io;

use super::ext::ExtSuperblock;
use super::read::{Area, be32};

const LENGTH: usize = 0x24;
const MAGIC: u32 = 0xc03b_3998;
const SUPERBLOCKS: [u32; 2] = [3, 4];

/// True if the journal records an error. False if its position is unknown, since the mount then reveals the error.
pub(crate) fn has_recorded_error(area: &Area<'_>, superblock: &ExtSuperblock) -> io::Result<bool> {
    let Some(at) = superblock.journal_offset() else { return Ok(false) };
    let Some(bytes) = area.read_within(at, LENGTH)? else { return Ok(false) };
    let is_journal = be32(&bytes, 0) == MAGIC && SUPERBLOCKS.contains(&be32(&bytes, 4));
    Ok(is_journal && be32(&bytes, 0x20) != 0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Written;
    use super::*;

    const BLOCK: u64 = 700;

    /// Returns whether the driver finds an error in a journal superblock with these big-endian numbers, each given by
    /// offset and value.
    fn error_in(numbers: &[(usize, u32)]) -> bool {
        let mut superblock = vec![0; 1024];
        superblock[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        superblock[0x5c] = 4;
        superblock[0xfd] = 1;
        superblock[0x10c..0x110].copy_from_slice(&u32::try_from(BLOCK).unwrap().to_le_bytes());
        let superblock = super::super::ext::parse(&superblock).unwrap();
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
        for version in SUPERBLOCKS {
            assert!(error_in(&[(0, MAGIC), (4, version), eio]));
            assert!(!error_in(&[(0, MAGIC), (4, version)]));
        }
        assert!(!error_in(&[(0, MAGIC), (4, 1), eio]), "a descriptor block");
        assert!(!error_in(&[(0, MAGIC + 1), (4, 4), eio]));
    }
}

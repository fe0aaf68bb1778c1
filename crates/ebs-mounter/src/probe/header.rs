//! Decides whether a signature belongs to a real header. Next to a complete superblock of ours, the signature may be
//! file data or a leftover of a previous use of the disk. So the header around the signature must be consistent, as
//! blkid requires.

use std::io;

use super::read::{Area, be16, be64, crc32, crc32c, le16, le32, le64};
use super::signatures::FoundSignature;

const SECTOR: u64 = 512;
const GPT_HEADER: usize = 92;
/// Minimum number of uberblocks in a pool that was ever used. blkid requires the same number.
const ZFS_UBERBLOCKS: usize = 4;
const ZFS_UBERBLOCK: usize = 1024;

/// True if the header around a signature is consistent. A kind of header with nothing to check counts as consistent.
pub(super) fn is_valid(area: &Area<'_>, sign: &FoundSignature) -> io::Result<bool> {
    let at = sign.offset;
    let within = |offset, length| area.read_within(offset, length);
    Ok(match sign.what {
        "a GPT partition table" | "a backup GPT partition table" => {
            within(at, 512)?.is_some_and(|header| is_gpt(&header, at))
        }
        "a LUKS backup header" => {
            within(at, 512)?.is_some_and(|header| be16(&header, 6) == 2 && be64(&header, 256) == at)
        }
        "btrfs" | "a btrfs mirror superblock" => {
            within(at - 64, 4096)?.is_some_and(|superblock| is_btrfs(&superblock, at - 64))
        }
        "an LVM physical volume" => {
            within(at, 512)?.is_some_and(|label| le64(&label, 8) == at / SECTOR && label[24..].starts_with(b"LVM"))
        }
        "a Linux RAID member" => within(at, 512)?.is_some_and(|superblock| is_raid(&superblock, at)),
        "swap space" => within(1024, 8)?.is_some_and(|header| le32(&header, 0) == 1 && le32(&header, 4) != 0),
        "NTFS" | "FAT" | "BitLocker" => within(0, 512)?.is_some_and(|sector| has_sector_size(&sector)),
        "ISO 9660" => within(at - 1, 8)?.is_some_and(|volume| volume[0] <= 3 && volume[6] == 1),
        "bcache" => within(4096, 512)?.is_some_and(|superblock| le64(&superblock, 8) == 4096 / SECTOR),
        "squashfs" => within(0, 512)?.is_some_and(|superblock| le16(&superblock, 28) == 4),
        "ReiserFS" => within(at - 52, 512)?.is_some_and(|superblock| {
            let block = le16(&superblock, 44);
            block >= 512 && block.is_power_of_two()
        }),
        "JFS" => within(at, 512)?.is_some_and(|superblock| matches!(le32(&superblock, 4), 1 | 2)),
        "a DOS partition table" => within(0, 512)?.is_some_and(|sector| is_dos(&sector)),
        "a ZFS pool member" => {
            let magic = within(at, 8)?;
            // Check from the first uberblock that was found to the end of the label's array.
            let left = 128 * ZFS_UBERBLOCK - usize::try_from(at % (128 * 1024)).map_err(io::Error::other)?;
            let blocks = within(at, left)?.unwrap_or_default();
            let same = blocks.chunks(ZFS_UBERBLOCK).filter(|block| magic.as_ref().is_some_and(|m| block[..8] == m[..]));
            same.count() >= ZFS_UBERBLOCKS
        }
        _ => true,
    })
}

/// Checks the header's position, which the header records in sectors of either size, and the header's checksum.
fn is_gpt(header: &[u8], at: u64) -> bool {
    let place = le64(header, 24);
    let mut counted = header[..GPT_HEADER].to_vec();
    counted[16..20].fill(0);
    [SECTOR, 4096].into_iter().any(|sector| place.checked_mul(sector) == Some(at))
        && crc32(&counted) == le32(header, 16)
}

/// Checks the position that the superblock records, and its checksum if it is of the usual type.
fn is_btrfs(superblock: &[u8], at: u64) -> bool {
    let usual = le16(superblock, 196) == 0;
    le64(superblock, 48) == at && (!usual || !crc32c(!0, &superblock[32..]) == le32(superblock, 0))
}

/// Checks the position that the superblock records (version 1) or the two version numbers (version 0.90).
fn is_raid(superblock: &[u8], at: u64) -> bool {
    match le32(superblock, 4) {
        0 => matches!(le32(superblock, 8), 90 | 91),
        1 => le64(superblock, 144) == at / SECTOR,
        _ => false,
    }
}

/// Checks the sector size in the boot sector of a DOS or Windows file system.
fn has_sector_size(sector: &[u8]) -> bool {
    matches!(le16(sector, 11), 512 | 1024 | 2048 | 4096) && sector[13].is_power_of_two()
}

/// Checks that the first byte of all four entries is 0 or 0x80, and that an entry has a type, a start and a length.
fn is_dos(sector: &[u8]) -> bool {
    let mut entries = sector[446..510].chunks(16);
    let is_entry = |entry: &[u8]| entry[4] != 0 && le32(entry, 8) != 0 && le32(entry, 12) != 0;
    entries.clone().all(|entry| matches!(entry[0], 0 | 0x80)) && entries.any(is_entry)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Overlaid, Written, made_by};
    use super::super::{Contents, Depth, inspect};
    use super::*;

    const SIZE: u64 = 400 << 20;

    fn put(bytes: &mut [u8], at: usize, piece: &[u8]) {
        bytes[at..at + piece.len()].copy_from_slice(piece);
    }

    fn sector(pieces: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        pieces.iter().for_each(|(at, piece)| put(&mut bytes, *at, piece));
        bytes
    }

    fn gpt(at: u64) -> Vec<u8> {
        let mut header = sector(&[(0, b"EFI PART"), (24, &(at / 512).to_le_bytes())]);
        let checksum = crc32(&header[..GPT_HEADER]).to_le_bytes();
        put(&mut header, 16, &checksum);
        header
    }

    fn btrfs(at: u64) -> Vec<u8> {
        let mut superblock = vec![0; 4096];
        put(&mut superblock, 48, &at.to_le_bytes());
        put(&mut superblock, 64, b"_BHRfS_M");
        let checksum = (!crc32c(!0, &superblock[32..])).to_le_bytes();
        put(&mut superblock, 0, &checksum);
        superblock
    }

    fn pool() -> Vec<u8> {
        let mut blocks = vec![0; ZFS_UBERBLOCKS * ZFS_UBERBLOCK];
        blocks.chunks_mut(ZFS_UBERBLOCK).for_each(|block| put(block, 0, b"\x0c\xb1\xba\0\0\0\0\0"));
        blocks
    }

    /// Returns for each header its kind, offset, bytes, and the offsets of the bytes that make it valid.
    fn headers() -> Vec<(&'static str, u64, Vec<u8>, Vec<usize>)> {
        let entry = [0x80, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 2, 0];
        let boot = |name: &[u8], at| sector(&[(at, name), (11, &512_u16.to_le_bytes()), (13, &[8])]);
        let raid_end = SIZE - 64 * 1024;
        vec![
            ("a GPT partition table", 512, gpt(512), vec![24, 16, 40]),
            ("a backup GPT partition table", SIZE - 512, gpt(SIZE - 512), vec![25, 17, 91]),
            (
                "a LUKS backup header",
                1 << 20,
                sector(&[(0, b"SKUL\xba\xbe\0\x02"), (256, &(1_u64 << 20).to_be_bytes())]),
                vec![7, 261],
            ),
            ("a btrfs mirror superblock", 64 << 20, btrfs(64 << 20), vec![51, 0, 4095]),
            ("an LVM physical volume", 512, sector(&[(0, b"LABELONE"), (8, &[1]), (24, b"LVM2 001")]), vec![8, 24]),
            (
                "a Linux RAID member",
                SIZE - 8192,
                sector(&[(0, b"\xfc\x4e\x2b\xa9\x01"), (144, &((SIZE - 8192) / 512).to_le_bytes())]),
                vec![4, 144],
            ),
            ("a Linux RAID member", raid_end, sector(&[(0, b"\xfc\x4e\x2b\xa9"), (8, &[90])]), vec![4, 8]),
            ("FAT", 0, boot(b"FAT16", 54), vec![12, 13]),
            ("NTFS", 0, boot(b"NTFS    ", 3), vec![12, 13]),
            ("ISO 9660", 32_768, sector(&[(0, b"\x01CD001\x01")]), vec![0, 6]),
            ("squashfs", 0, sector(&[(0, b"hsqs"), (28, &[4])]), vec![28]),
            ("JFS", 32_768, sector(&[(0, b"JFS1\x01")]), vec![4]),
            ("ReiserFS", 65_536, sector(&[(45, &[0x10]), (52, b"ReIsEr2Fs")]), vec![45]),
            ("a DOS partition table", 0, sector(&[(446, &entry), (510, b"\x55\xaa")]), vec![446, 478]),
            ("a ZFS pool member", 128 * 1024, pool(), vec![3 * ZFS_UBERBLOCK]),
        ]
    }

    fn is_valid_in(device: Vec<(u64, Vec<u8>)>, what: &'static str, offset: u64) -> bool {
        is_valid(&Area::new(&Written(device), SIZE), &FoundSignature { what, offset }).unwrap()
    }

    fn contents(image: &std::fs::File, at: u64, bytes: Vec<u8>) -> Contents {
        inspect(&Area::new(&Overlaid { below: image, at, bytes }, SIZE), Depth::Proof { seed: 7 }).unwrap()
    }

    #[test]
    fn signature_makes_a_file_system_foreign_if_header_is_valid() {
        let ext4 = made_by("mke2fs", &["-q", "-F", "-t", "ext4"], SIZE);
        for (what, at, header, deciding) in headers() {
            let both = contents(&ext4, at, header.clone());
            assert!(
                matches!(&both, Contents::Foreign { what: said, .. } if *said == format!("ext4 together with {what}")),
                "{what}: {both}"
            );
            for byte in deciding {
                let mut other = header.clone();
                other[byte] ^= 0x27;
                let alone = contents(&ext4, at, other);
                assert!(
                    matches!(&alone, Contents::Filesystem(s) if s.is_complete()),
                    "{what} without byte {byte}: {alone}"
                );
            }
        }
    }

    #[test]
    fn inconsistent_header_or_partition_table_is_ignored() {
        let valid = |what, offset, bytes| is_valid_in(vec![(offset, bytes)], what, offset);
        assert!(valid("a GPT partition table", 512, gpt(512)));
        // With sectors of 4 KiB, the header is in the second sector.
        assert!(valid("a GPT partition table", 4096, gpt(512)));
        assert!(!valid("a GPT partition table", 512, gpt(1024)));
        let dos = |entry: [u8; 16]| {
            let table = sector(&[(446, &entry), (510, b"\x55\xaa")]);
            is_valid_in(vec![(0, table)], "a DOS partition table", 446)
        };
        assert!(dos([0x80, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 2, 0]));
        assert!(!dos([0x80, 0, 2, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 2, 0]), "it has no type");
        assert!(!dos([0x80, 0, 2, 0, 0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]), "it has no start");
        assert!(!dos([0x80, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0]), "it has no length");
        assert!(valid("a ZFS pool member", 128 * 1024 + 124 * 1024, pool()));
        assert!(!valid("a ZFS pool member", 128 * 1024 + 125 * 1024, pool()), "the fourth is after the label");
    }

    #[test]
    fn swap_and_bcache_need_a_valid_header_but_luks_does_not() {
        let valid = |what, offset, bytes| is_valid_in(bytes, what, offset);
        let swap = |version: u8, pages: u8| vec![(1024, vec![version, 0, 0, 0, pages, 0, 0, 0])];
        assert!(valid("swap space", 4086, swap(1, 9)));
        assert!(!valid("swap space", 4086, swap(2, 9)) && !valid("swap space", 4086, swap(1, 0)));
        assert!(valid("bcache", 4120, vec![(4104, vec![8])]) && !valid("bcache", 4120, vec![(4104, vec![9])]));
        assert!(valid("LUKS encryption", 0, Vec::new()) && valid("an Oracle ASM disk", 32, Vec::new()));
    }

    #[test]
    fn any_signature_makes_an_incomplete_file_system_foreign() {
        let damaged = made_by("mke2fs", &["-q", "-F", "-t", "ext4"], SIZE);
        std::os::unix::fs::FileExt::write_all_at(&damaged, b"x", 1024 + 0x78).unwrap();
        for (what, at, mut header, deciding) in headers() {
            header[deciding[0]] ^= 0x27;
            let found = contents(&damaged, at, header);
            assert!(matches!(&found, Contents::Foreign { what: said, .. } if said.ends_with(what)), "{what}: {found}");
        }
    }
}

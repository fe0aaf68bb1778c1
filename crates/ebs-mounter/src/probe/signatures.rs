//! Signatures of other file systems, partition tables, volume managers and encryption.

use std::io;

use super::read::Area;

#[derive(Clone, Copy)]
enum At {
    /// Bytes from the start.
    Start(u64),
    /// Bytes before the end.
    End(u64),
    /// Bytes before the end. The end is first rounded down to a multiple of the second number.
    RoundedEnd(u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundSignature {
    pub(super) what: &'static str,
    pub(super) offset: u64,
}

/// The name of the contents, the position of the signature, and the signature.
struct Signature(&'static str, At, &'static [u8]);

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

const SIGNATURES: &[Signature] = &[
    Signature("a GPT partition table", At::Start(512), b"EFI PART"),
    Signature("a GPT partition table", At::Start(4096), b"EFI PART"),
    Signature("a backup GPT partition table", At::End(512), b"EFI PART"),
    Signature("a backup GPT partition table", At::End(4096), b"EFI PART"),
    Signature("LUKS encryption", At::Start(0), b"LUKS\xba\xbe"),
    Signature("a LUKS backup header", At::Start(16 * KIB), b"SKUL\xba\xbe"),
    Signature("a LUKS backup header", At::Start(32 * KIB), b"SKUL\xba\xbe"),
    Signature("a LUKS backup header", At::Start(64 * KIB), b"SKUL\xba\xbe"),
    Signature("a LUKS backup header", At::Start(128 * KIB), b"SKUL\xba\xbe"),
    Signature("a LUKS backup header", At::Start(256 * KIB), b"SKUL\xba\xbe"),
    Signature("a LUKS backup header", At::Start(512 * KIB), b"SKUL\xba\xbe"),
    Signature("a LUKS backup header", At::Start(MIB), b"SKUL\xba\xbe"),
    Signature("a LUKS backup header", At::Start(2 * MIB), b"SKUL\xba\xbe"),
    Signature("a LUKS backup header", At::Start(4 * MIB), b"SKUL\xba\xbe"),
    Signature("btrfs", At::Start(64 * KIB + 64), b"_BHRfS_M"),
    Signature("a btrfs mirror superblock", At::Start(64 * MIB + 64), b"_BHRfS_M"),
    Signature("a btrfs mirror superblock", At::Start(256 * GIB + 64), b"_BHRfS_M"),
    Signature("an LVM physical volume", At::Start(0), b"LABELONE"),
    Signature("an LVM physical volume", At::Start(512), b"LABELONE"),
    Signature("an LVM physical volume", At::Start(1024), b"LABELONE"),
    Signature("an LVM physical volume", At::Start(1536), b"LABELONE"),
    Signature("swap space", At::Start(4086), b"SWAPSPACE2"),
    Signature("swap space", At::Start(4086), b"SWAP-SPACE"),
    Signature("swap space", At::Start(65_526), b"SWAPSPACE2"),
    Signature("a Linux RAID member", At::Start(0), b"\xfc\x4e\x2b\xa9"),
    Signature("a Linux RAID member", At::Start(4096), b"\xfc\x4e\x2b\xa9"),
    Signature("a Linux RAID member", At::RoundedEnd(64 * KIB, 64 * KIB), b"\xfc\x4e\x2b\xa9"),
    Signature("a Linux RAID member", At::RoundedEnd(8 * KIB, 4 * KIB), b"\xfc\x4e\x2b\xa9"),
    Signature("NTFS", At::Start(3), b"NTFS    "),
    Signature("exFAT", At::Start(3), b"EXFAT   "),
    Signature("FAT", At::Start(54), b"FAT1"),
    Signature("FAT", At::Start(82), b"FAT32   "),
    Signature("F2FS", At::Start(1024), b"\x10\x20\xf5\xf2"),
    Signature("EROFS", At::Start(1024), b"\xe2\xe1\xf5\xe0"),
    Signature("squashfs", At::Start(0), b"hsqs"),
    Signature("ISO 9660", At::Start(32_769), b"CD001"),
    Signature("bcache", At::Start(4120), b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    Signature("an Oracle ASM disk", At::Start(32), b"ORCLDISK"),
    Signature("BitLocker", At::Start(3), b"-FVE-FS-"),
    Signature("ReiserFS", At::Start(64 * KIB + 52), b"ReIsEr"),
    Signature("JFS", At::Start(32 * KIB), b"JFS1"),
];

/// ZFS has four labels, two at each end. Each contains 128 uberblocks from offset 128 KiB on, in either byte order.
const ZFS_LABEL: u64 = 256 * KIB;
const ZFS_UBERBLOCKS: u64 = 128 * KIB;
const ZFS_UBERBLOCK: usize = 1024;
const ZFS_MAGIC: [u8; 8] = [0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0];

pub(super) fn find(area: &Area<'_>) -> io::Result<Vec<FoundSignature>> {
    let mut found = Vec::new();
    for &Signature(what, at, sign) in SIGNATURES {
        if let Some(offset) = place(at, area.size())
            && area.read_within(offset, sign.len())?.is_some_and(|bytes| bytes == sign)
        {
            found.push(FoundSignature { what, offset });
        }
    }
    found.extend(partition_table(area)?);
    found.extend(zfs(area)?);
    Ok(found)
}

fn place(at: At, size: u64) -> Option<u64> {
    match at {
        At::Start(offset) => Some(offset),
        At::End(back) => size.checked_sub(back),
        At::RoundedEnd(back, multiple) => (size / multiple * multiple).checked_sub(back),
    }
}

/// Finds a DOS partition table: its mark and an entry with a type. Many boot sectors have the mark without an entry.
fn partition_table(area: &Area<'_>) -> io::Result<Option<FoundSignature>> {
    let Some(sector) = area.read_within(0, 512)? else { return Ok(None) };
    let marked = sector[510..] == [0x55, 0xaa];
    let has_entry = (0..4).any(|entry| sector[446 + 16 * entry + 4] != 0);
    Ok((marked && has_entry).then_some(FoundSignature { what: "a DOS partition table", offset: 446 }))
}

fn zfs(area: &Area<'_>) -> io::Result<Option<FoundSignature>> {
    let end = area.size() / ZFS_LABEL * ZFS_LABEL;
    let labels = [Some(0), Some(ZFS_LABEL), end.checked_sub(2 * ZFS_LABEL), end.checked_sub(ZFS_LABEL)];
    for label in labels.into_iter().flatten() {
        let start = label + ZFS_UBERBLOCKS;
        let Some(blocks) = area.read_within(start, 128 * ZFS_UBERBLOCK)? else { continue };
        let mut offset = start;
        for block in blocks.chunks(ZFS_UBERBLOCK) {
            let reversed: Vec<u8> = block[..8].iter().rev().copied().collect();
            if block[..8] == ZFS_MAGIC || reversed == ZFS_MAGIC {
                return Ok(Some(FoundSignature { what: "a ZFS pool member", offset }));
            }
            offset += 1024;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Written;
    use super::*;

    /// A size that is not a multiple of the units to which RAID positions are rounded, and large enough for each position.
    const SIZE: u64 = (300 << 30) + 12_800;

    #[test]
    fn every_signature_is_found_only_at_its_offset() {
        let found = |at: u64, sign: &[u8]| find(&Area::new(&Written(vec![(at, sign.to_vec())]), SIZE)).unwrap();
        let mut lines = String::new();
        for &Signature(what, at, sign) in SIGNATURES {
            let offset = place(at, SIZE).unwrap();
            assert!(found(offset, sign).contains(&FoundSignature { what, offset }), "{what} at {offset}");
            assert_eq!(found(offset + 1, sign), [], "{what} beside {offset}");
            lines.push_str(&format!("{what} {offset} {sign:?}\n"));
        }
        // Signatures are never removed and never move. Adding one changes these numbers.
        assert_eq!((SIGNATURES.len(), super::super::blank::seed(&lines)), (41, 0x965e_bea1_431b_45c0), "{lines}");
        // Positions before the last multiple of 64 KiB or 4 KiB, and before the end.
        let from_the_end = [
            (At::RoundedEnd(64 * KIB, 64 * KIB), 65_536 + 12_800),
            (At::RoundedEnd(8 * KIB, 4 * KIB), 8192 + 512),
            (At::End(512), 512),
        ];
        for (at, back) in from_the_end {
            assert_eq!(place(at, SIZE), Some(SIZE - back));
        }
    }

    #[test]
    fn disk_too_small_for_a_position_has_no_signature_there() {
        for size in [0, 511, 512, 4095, 8191, 65_535] {
            assert_eq!(find(&Area::new(&Written(Vec::new()), size)).unwrap(), [], "{size}");
        }
    }
}

//! Headers that no installed tool writes. This file builds them byte by byte from the published formats.

use crate::exhibit::Place::{At, Back};
use crate::exhibit::{MIB, Place, Step};

/// Places each piece at its offset and fills the gaps with zeros.
pub(crate) fn laid_out(pieces: &[(usize, &[u8])]) -> Vec<u8> {
    let length = pieces.iter().map(|(at, piece)| at + piece.len()).max().unwrap_or_default();
    let mut bytes = vec![0; length.next_multiple_of(512)];
    for (at, piece) in pieces {
        bytes[*at..at + piece.len()].copy_from_slice(piece);
    }
    bytes
}

/// Returns the step that writes pieces at a position.
pub(crate) fn written(place: Place, pieces: &[(usize, &[u8])]) -> Step {
    Step::Write(place, laid_out(pieces))
}

/// Returns the CRC-32 checksum as zlib computes it, which GPT uses.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

/// Returns a GPT header with one Linux partition, for sector `mine` of a disk with `sectors` sectors.
pub(crate) fn gpt(mine: u64, other: u64, table: u64, sectors: u64) -> (Vec<u8>, Vec<u8>) {
    let linux = [0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4];
    let mut entries = laid_out(&[(0, &linux), (16, &[7; 16]), (32, &2048_u64.to_le_bytes())]);
    entries[40..48].copy_from_slice(&(sectors - 2048).to_le_bytes());
    entries.resize(128 * 128, 0);
    let mut header = laid_out(&[
        (0, b"EFI PART\0\0\x01\0"),
        (12, &92_u32.to_le_bytes()),
        (24, &mine.to_le_bytes()),
        (32, &other.to_le_bytes()),
        (40, &34_u64.to_le_bytes()),
        (48, &(sectors - 34).to_le_bytes()),
        (56, &[9; 16]),
        (72, &table.to_le_bytes()),
        (80, &128_u32.to_le_bytes()),
        (84, &128_u32.to_le_bytes()),
        (88, &crc32(&entries).to_le_bytes()),
    ]);
    let checksum = crc32(&header[..92]);
    header[16..20].copy_from_slice(&checksum.to_le_bytes());
    (header, entries)
}

/// Returns the steps for a GPT at the start of the disk, without the protective MBR.
pub(crate) fn first_gpt(bytes: u64) -> Vec<Step> {
    let sectors = bytes / 512;
    let (header, entries) = gpt(1, sectors - 1, 2, sectors);
    vec![Step::Write(At(512), header), Step::Write(At(1024), entries)]
}

pub(crate) fn backup_gpt(bytes: u64) -> Vec<Step> {
    let sectors = bytes / 512;
    let (header, entries) = gpt(sectors - 1, 1, sectors - 33, sectors);
    vec![Step::Write(Back(512), header), Step::Write(Back(33 * 512), entries)]
}

/// Returns the step for a DOS partition table with one partition of the type `kind`.
pub(crate) fn mbr(kind: u8) -> Step {
    let entry = [0, 0, 2, 0, kind, 0, 0, 0, 0, 8, 0, 0, 0, 0, 2, 0];
    written(At(0), &[(446, &entry), (510, &[0x55, 0xaa])])
}

/// Returns the step that writes a Linux RAID superblock, version 1, for this sector.
pub(crate) fn raid_1(place: Place, sector: u64) -> Step {
    let mut superblock = laid_out(&[
        (0, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
        (16, &[5; 16]),
        (32, b"host:0"),
        (72, &1_u32.to_le_bytes()),
        (80, &131_072_u64.to_le_bytes()),
        (92, &2_u32.to_le_bytes()),
        (128, &2048_u64.to_le_bytes()),
        (136, &131_072_u64.to_le_bytes()),
        (144, &sector.to_le_bytes()),
    ]);
    // The checksum is the sum of the superblock's words, with carry, while the checksum field is zero.
    let words =
        superblock[..256].chunks(4).map(|word| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]])));
    let sum: u64 = words.sum();
    let sum = u32::try_from((sum & 0xffff_ffff) + (sum >> 32)).expect("a small sum");
    superblock[216..220].copy_from_slice(&sum.to_le_bytes());
    Step::Write(place, superblock)
}

/// Returns the step for a Linux RAID superblock, version 0.90.
pub(crate) fn raid_0_90(place: Place) -> Step {
    written(
        place,
        &[
            (0, b"\xfc\x4e\x2b\xa9\0\0\0\0\x5a\0\0\0\0\0\0\0"),
            (20, &[5; 4]),
            (28, &1_u32.to_le_bytes()),
            (32, &65_536_u32.to_le_bytes()),
            (36, &2_u32.to_le_bytes()),
            (40, &2_u32.to_le_bytes()),
        ],
    )
}

/// Returns the step for a ZFS label. It has 128 uberblocks, each with its own transaction number.
pub(crate) fn zfs_label(place: Place) -> Step {
    let mut label = vec![0; 256 * 1024];
    for (number, block) in label[128 * 1024..].chunks_mut(1024).enumerate() {
        block[..8].copy_from_slice(b"\x0c\xb1\xba\0\0\0\0\0");
        block[8..16].copy_from_slice(&5000_u64.to_le_bytes());
        block[16..24].copy_from_slice(&u64::try_from(number).expect("a small number").to_le_bytes());
    }
    Step::Write(place, label)
}

/// Returns the step for the label of an LVM physical volume, in the second sector, where pvcreate writes it.
pub(crate) fn lvm() -> Step {
    written(
        At(512),
        &[
            (0, b"LABELONE\x01\0\0\0\0\0\0\0"),
            (20, &32_u32.to_le_bytes()),
            (24, b"LVM2 001"),
            (32, b"RpuKWZ3zvBGQiwkFqb9uYAELCaO0ZSzv"),
        ],
    )
}

/// Returns the steps that write the volume header and the file system header of VMFS.
pub(crate) fn vmfs() -> Vec<Step> {
    vec![written(At(MIB), &[(0, b"\x0d\xd0\x01\xc0")]), written(At(2 * MIB), &[(0, b"\x5e\xf1\xab\x2f")])]
}

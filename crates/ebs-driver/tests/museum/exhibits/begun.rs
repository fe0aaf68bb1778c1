//! Incomplete superblocks: from an mkfs that was stopped, without a record of this driver, or remains of a file system.

use crate::exhibit::Place::At;
use crate::exhibit::Step::{Run, Write, Zero};
use crate::exhibit::{Exhibit, GIB, KIB, MIB};
use crate::headers::written;

pub(crate) fn all() -> Vec<Exhibit> {
    let mut exhibits = of_xfs();
    exhibits.extend(of_ext());
    exhibits
}

fn of_xfs() -> Vec<Exhibit> {
    let xfs = || Run("mkfs.xfs", &["-q", "-K"]);
    vec![
        Exhibit::new(
            "the first 200 bytes of an xfs superblock",
            GIB,
            vec![xfs(), Zero(At(200), 312)],
            &["an incomplete or damaged xfs"],
        )
        .asked("xfs"),
        Exhibit::new(
            "an xfs whose mkfs was stopped, without a record",
            GIB,
            vec![xfs(), Write(At(126), vec![1])],
            &["an incomplete or damaged xfs"],
        )
        .asked("xfs"),
        Exhibit::new(
            "an xfs with a damaged superblock",
            GIB,
            vec![xfs(), Write(At(108), vec![0x5a; 4])],
            &["an incomplete or damaged xfs"],
        )
        .asked("xfs"),
        Exhibit::new(
            "the four letters of xfs",
            600 * MIB,
            vec![Write(At(0), b"XFSB".to_vec())],
            &["an incomplete or damaged xfs"],
        )
        .asked("xfs"),
    ]
}

fn of_ext() -> Vec<Exhibit> {
    let ext4 = || Run("mke2fs", &["-q", "-t", "ext4", "-E", "nodiscard"]);
    vec![
        Exhibit::new(
            "the first half of an ext4 superblock",
            GIB,
            vec![ext4(), Zero(At(1536), 512)],
            &["an incomplete or damaged ext4"],
        ),
        Exhibit::new(
            "an ext4 with a damaged superblock",
            GIB,
            vec![ext4(), Write(At(KIB + 0x78), b"x".to_vec())],
            &["an incomplete or damaged ext4"],
        ),
        Exhibit::new(
            "the two bytes of ext",
            600 * MIB,
            vec![written(At(KIB), &[(0x38, b"\x53\xef")])],
            &["an incomplete or damaged ext2"],
        ),
        Exhibit::new(
            "an ext4 whose tables are written and whose superblock is not",
            GIB,
            vec![ext4(), Zero(At(KIB), KIB)],
            &["data of unknown kind", "at byte 4096"],
        ),
        Exhibit::new(
            "the journal of an ext4, kept on this disk",
            GIB,
            vec![Run("mke2fs", &["-q", "-O", "journal_dev", "-b", "4096"])],
            &["an incomplete or damaged ext"],
        ),
    ]
}

//! Incomplete superblocks: they remain either from an interrupted mkfs of which the driver has no record, or from an
//! earlier file system.

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
    let damaged = |name, bytes, made| Exhibit::new(name, bytes, made, &["an incomplete or damaged xfs"]).asked("xfs");
    let xfs = |name, change| damaged(name, GIB, vec![Run("mkfs.xfs", &["-q", "-K"]), change]);
    vec![
        xfs("the first 200 bytes of an xfs superblock", Zero(At(200), 312)),
        xfs("an xfs whose mkfs was stopped, without a record", Write(At(126), vec![1])),
        xfs("an xfs with a damaged superblock", Write(At(108), vec![0x5a; 4])),
        damaged("the four letters of xfs", 600 * MIB, vec![Write(At(0), b"XFSB".to_vec())]),
    ]
}

fn of_ext() -> Vec<Exhibit> {
    let mke2fs = || Run("mke2fs", &["-q", "-t", "ext4", "-E", "nodiscard"]);
    let ext4 = |name, change, told: &[&str]| Exhibit::new(name, GIB, vec![mke2fs(), change], told);
    vec![
        ext4("the first half of an ext4 superblock", Zero(At(1536), 512), &["an incomplete or damaged ext4"]),
        ext4(
            "an ext4 with a damaged superblock",
            Write(At(KIB + 0x78), b"x".to_vec()),
            &["an incomplete or damaged ext4"],
        ),
        Exhibit::new(
            "the two bytes of ext",
            600 * MIB,
            vec![written(At(KIB), &[(0x38, b"\x53\xef")])],
            &["an incomplete or damaged ext2"],
        ),
        ext4(
            "an ext4 whose tables are written and whose superblock is not",
            Zero(At(KIB), KIB),
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

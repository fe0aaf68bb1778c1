//! File systems whose beginning was overwritten with zeros, for example by `dd` or by a wipe that was interrupted.

use crate::exhibit::Place::{At, Back};
use crate::exhibit::Step::{GrowXfs, Run, Zero};
use crate::exhibit::{Exhibit, GIB, MIB};

/// The number of wiped bytes: more than the blank proof reads in full at each end of the disk.
const WIPED: u64 = 32 * MIB;

fn ext_of(name: &'static str, bytes: u64, args: &'static [&'static str], offset: u64) -> Exhibit {
    Exhibit::seen_between(name, bytes, vec![Run("mke2fs", args), Zero(At(0), WIPED)], WIPED..offset + 4096)
}

/// Returns exhibits with ext2, ext3 and ext4, in which the proof finds the first remaining copy of the superblock.
pub(crate) fn ext() -> Vec<Exhibit> {
    let wiped_1_mib = vec![Run("mke2fs", &["-q", "-t", "ext4", "-E", "nodiscard"]), Zero(At(0), MIB)];
    vec![
        ext_of("ext2", 10 * GIB, &["-q", "-t", "ext2", "-E", "nodiscard"], 128 * MIB),
        ext_of("ext3", 10 * GIB, &["-q", "-t", "ext3", "-E", "nodiscard"], 128 * MIB),
        ext_of("ext4", 10 * GIB, &["-q", "-t", "ext4", "-E", "nodiscard"], 128 * MIB),
        Exhibit::seen_between("ext4, only the first MiB wiped", 100 * GIB, wiped_1_mib, MIB..2 * MIB),
        ext_of("ext4 with blocks of 1 KiB", GIB, &["-q", "-t", "ext4", "-b", "1024", "-E", "nodiscard"], 40 * MIB),
        ext_of("ext4 with blocks of 2 KiB", 4 * GIB, &["-q", "-t", "ext4", "-b", "2048", "-E", "nodiscard"], 32 * MIB),
        ext_of(
            "ext4 with clusters of 16 KiB (bigalloc)",
            20 * GIB,
            &["-q", "-t", "ext4", "-O", "bigalloc", "-C", "16384", "-E", "nodiscard"],
            512 * MIB,
        ),
        ext_of(
            "ext4 with clusters of 64 KiB (bigalloc)",
            100 * GIB,
            &["-q", "-t", "ext4", "-O", "bigalloc", "-C", "65536", "-E", "nodiscard"],
            2 * GIB,
        ),
        ext_of(
            "ext4 with two copies of its superblock (sparse_super2)",
            10 * GIB,
            &["-q", "-t", "ext4", "-O", "sparse_super2,^resize_inode", "-E", "nodiscard"],
            128 * MIB,
        ),
        ext_of(
            "ext4 with one copy of its superblock",
            10 * GIB,
            &["-q", "-t", "ext4", "-O", "sparse_super2,^resize_inode", "-E", "nodiscard,num_backup_sb=1"],
            128 * MIB,
        ),
        ext_of(
            "ext4 with meta block groups and without a journal",
            10 * GIB,
            &["-q", "-t", "ext4", "-O", "meta_bg,^resize_inode,^has_journal", "-E", "nodiscard"],
            128 * MIB,
        ),
        ext_of("ext4 of 4 TiB", 4096 * GIB, &["-q", "-t", "ext4", "-E", "nodiscard"], 128 * MIB),
    ]
}

fn xfs_of(name: &'static str, bytes: u64, args: &'static [&'static str], offset: u64) -> Exhibit {
    Exhibit::seen_at(name, bytes, vec![Run("mkfs.xfs", args), Zero(At(0), WIPED)], offset).asked("xfs")
}

fn grown(name: &'static str, from: u64, args: &'static [&'static str], to: u64, offset: u64) -> Exhibit {
    let made = vec![Run("mkfs.xfs", args), GrowXfs(to), Zero(At(0), WIPED), Zero(Back(WIPED), WIPED)];
    Exhibit::seen_at(name, from, made, offset).asked("xfs")
}

/// Returns exhibits with xfs, in which the proof finds the header of an allocation group.
pub(crate) fn xfs() -> Vec<Exhibit> {
    let quarters = &["-q", "-K"];
    vec![
        xfs_of("xfs as mkfs.xfs makes it of a rotating disk", 100 * GIB, quarters, 25 * GIB),
        xfs_of("xfs with 6 groups", 100 * GIB, &["-q", "-K", "-d", "agcount=6"], 17_895_698_432),
        xfs_of("xfs with 25 groups", 100 * GIB, &["-q", "-K", "-d", "agcount=25"], 4 * GIB),
        xfs_of("xfs with 36 groups", 500 * GIB, &["-q", "-K", "-d", "agcount=36"], 14_913_081_344),
        xfs_of("xfs with 96 groups", 500 * GIB, &["-q", "-K", "-d", "agcount=96"], 5_592_408_064),
        xfs_of("xfs of version 4", 20 * GIB, &["-q", "-K", "-m", "crc=0,reflink=0", "-i", "sparse=0"], 5 * GIB),
        xfs_of("xfs with blocks of 1 KiB", 20 * GIB, &["-q", "-K", "-b", "size=1024"], 5 * GIB),
        xfs_of("xfs with blocks of 64 KiB", 20 * GIB, &["-q", "-K", "-b", "size=65536"], 5 * GIB),
        xfs_of("xfs of 8 TiB", 8192 * GIB, quarters, 1024 * GIB - 4096),
        grown("xfs that was made on 7 GiB and grown to 45 GiB", 7 * GIB, quarters, 45 * GIB, 7 * GIB / 4),
        grown("xfs that was made on 10 GiB and grown to 11 GiB", 10 * GIB, quarters, 11 * GIB, 5 * GIB / 2),
        grown(
            "xfs with 36 groups on 37 GiB that was grown to 300 GiB",
            37 * GIB,
            &["-q", "-K", "-d", "agsize=1103564800"],
            300 * GIB,
            36 * 1_103_564_800,
        ),
    ]
}

/// Returns exhibits with file systems that this driver does not support.
pub(crate) fn others() -> Vec<Exhibit> {
    let btrfs = |wiped| vec![Run("mkfs.btrfs", &["-q", "-K"]), Zero(At(0), wiped)];
    vec![
        Exhibit::new("btrfs", 10 * GIB, btrfs(MIB), &["a btrfs mirror superblock", "at byte 67108928"]),
        Exhibit::new("btrfs, 32 MiB wiped", 10 * GIB, btrfs(WIPED), &["a btrfs mirror superblock", "67108928"]),
        Exhibit::new(
            "btrfs of 300 GiB, 65 MiB wiped",
            300 * GIB,
            btrfs(65 * MIB),
            &["a btrfs mirror superblock", "at byte 274877907008"],
        ),
        Exhibit::seen_at("f2fs", 10 * GIB, vec![Run("mkfs.f2fs", &["-q", "-t", "0"]), Zero(At(0), MIB)], 2 * MIB),
        Exhibit::seen_between(
            "NTFS",
            10 * GIB,
            vec![Run("mkfs.ntfs", &["-q", "-Q", "-F"]), Zero(At(0), MIB)],
            MIB..10 * GIB,
        ),
        Exhibit::new("nilfs2", 10 * GIB, vec![Run("mkfs.nilfs2", &["-q"]), Zero(At(0), MIB)], &["nilfs2"]),
        Exhibit::new(
            "LUKS2, first header wiped",
            GIB,
            vec![Run("cryptsetup", LUKS2), Zero(At(0), 16 * 1024)],
            &["a LUKS backup header", "at byte 16384"],
        ),
        Exhibit::new(
            "LUKS2, both headers wiped: the keys are left",
            GIB,
            vec![Run("cryptsetup", LUKS2), Zero(At(0), 32 * 1024)],
            &["data of unknown kind", "at byte 32768"],
        ),
    ]
}

/// The arguments that create a LUKS2 device quickly. The strength of its password does not matter here.
pub(crate) const LUKS2: &[&str] = &[
    "luksFormat",
    "-q",
    "--type",
    "luks2",
    "--pbkdf",
    "pbkdf2",
    "--pbkdf-force-iterations",
    "1000",
    "--key-file",
    "/etc/hostname",
];

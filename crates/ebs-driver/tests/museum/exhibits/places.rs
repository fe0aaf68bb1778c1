//! One byte that is not zero, at each kind of position that the blank-disk proof reads, on an otherwise blank disk.

use crate::exhibit::Place::{At, Back};
use crate::exhibit::Step::Write;
use crate::exhibit::{Exhibit, GIB, KIB, MIB, Place, TIB};

/// Small enough that a blank-disk proof, which reads at many positions, is fast.
const SIZE: u64 = 40 * GIB;

fn one(name: &'static str, bytes: u64, place: Place) -> Exhibit {
    Exhibit::seen_at(name, bytes, vec![Write(place, vec![1])], place.on(bytes))
}

pub(crate) fn all() -> Vec<Exhibit> {
    vec![
        one("the first byte", SIZE, At(0)),
        one("the last byte of the first MiB", SIZE, At(MIB - 1)),
        one("the last byte of the first 16 MiB", SIZE, At(16 * MIB - 1)),
        one("the first byte of the last 16 MiB", SIZE, Back(16 * MIB)),
        one("the first byte of the last MiB", SIZE, Back(MIB)),
        one("the last byte", SIZE, Back(1)),
        one("the first copy of an ext superblock, blocks of 1 KiB", SIZE, At(24 * MIB + KIB)),
        one("the first copy of an ext superblock, blocks of 4 KiB", SIZE, At(128 * MIB)),
        one("group 49 of an ext4", SIZE, At(49 * 128 * MIB)),
        one("the first copy of an ext4 superblock, clusters of 1 MiB", 50 * GIB, At(32 * GIB)),
        one("the mirror of a btrfs superblock at 64 MiB", SIZE, At(64 * MIB)),
        one("the mirror of a btrfs superblock at 256 GiB", 300 * GIB, At(256 * GIB)),
        one("the second of 4 groups of an xfs", SIZE, At(10 * GIB)),
        one("the middle of 96 groups of an xfs", SIZE, At(20 * GIB)),
        one("an xfs group of 4 GiB", SIZE, At(36 * GIB)),
        one("where an xfs of 37 GiB ended before it grew", SIZE, At(37 * GIB)),
        one("a group of 1 TiB of an xfs", 15 * TIB, At(3 * (TIB - 4 * KIB))),
        Exhibit::seen_between(
            "one of 1,024 stretches filled",
            GIB,
            vec![Write(At(500 * MIB), vec![1; 1 << 20])],
            500 * MIB..501 * MIB,
        ),
        one("the last page of a disk of 15 TiB", 15 * TIB, Back(4096)),
        one("a disk of 1 MiB, its middle", MIB, At(MIB / 2)),
        one("a disk of 32 MiB, its middle", 32 * MIB, At(16 * MIB)),
        one("a disk of 33 MiB, its end", 33 * MIB, Back(1)),
    ]
}

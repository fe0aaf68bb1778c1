//! Members of larger structures: partition tables, volume managers, RAID, encryption, swap, caches, clusters.

use crate::exhibit::Place::{At, Back};
use crate::exhibit::Step::{Run, Write, Zero};
use crate::exhibit::{Exhibit, GIB, KIB, MIB};
use crate::exhibits::wiped::LUKS2;
use crate::headers::{backup_gpt, first_gpt, lvm, mbr, raid_0_90, raid_1, written, zfs_label};

const SIZE: u64 = 600 * MIB;

pub(crate) fn partitions() -> Vec<Exhibit> {
    vec![
        Exhibit::new("a DOS partition table", SIZE, vec![mbr(0x83)], &["a DOS partition table", "at byte 446"]),
        Exhibit::new("a protective MBR alone", SIZE, vec![mbr(0xee)], &["a DOS partition table", "at byte 446"]),
        Exhibit::new("GPT without its MBR", SIZE, first_gpt(SIZE), &["a GPT partition table", "at byte 512"]),
        Exhibit::new(
            "the backup GPT alone",
            SIZE,
            backup_gpt(SIZE),
            &["a backup GPT partition table", "at byte 629145088"],
        ),
        Exhibit::new(
            "an Apple partition map",
            SIZE,
            vec![written(At(0), &[(0, b"ER\x02\0"), (512, b"PM\0\0\0\0\0\x01")])],
            &["at byte 0"],
        ),
        Exhibit::new(
            "a boot sector without partitions",
            SIZE,
            vec![written(At(0), &[(510, b"\x55\xaa")])],
            &["at byte 510"],
        ),
    ]
}

pub(crate) fn members() -> Vec<Exhibit> {
    let mut exhibits = of_raid();
    exhibits.extend(of_zfs());
    exhibits.extend(of_others());
    exhibits
}

fn of_raid() -> Vec<Exhibit> {
    let raid = "a Linux RAID member";
    vec![
        Exhibit::new("LVM2", SIZE, vec![lvm()], &["an LVM physical volume", "at byte 512"]),
        Exhibit::new("Linux RAID, metadata 0.90", SIZE, vec![raid_0_90(Back(64 * KIB))], &[raid, "at byte 629080064"]),
        Exhibit::new(
            "Linux RAID, metadata 1.0",
            SIZE,
            vec![raid_1(Back(8 * KIB), (SIZE - 8 * KIB) / 512)],
            &[raid, "at byte 629137408"],
        ),
        Exhibit::new("Linux RAID, metadata 1.1", SIZE, vec![raid_1(At(0), 0)], &[raid, "at byte 0"]),
        Exhibit::new("Linux RAID, metadata 1.2", SIZE, vec![raid_1(At(4 * KIB), 8)], &[raid, "at byte 4096"]),
        Exhibit::new(
            "Intel's RAID of the firmware",
            SIZE,
            vec![written(Back(KIB), &[(0, b"Intel Raid ISM Cfg Sig. 1.3.00")])],
            &["isw_raid_member"],
        ),
        Exhibit::new(
            "DDF RAID",
            SIZE,
            vec![written(Back(512), &[(0, b"\xde\x11\xde\x11")])],
            &["ddf_raid_member", "at byte 629145088"],
        ),
    ]
}

fn of_zfs() -> Vec<Exhibit> {
    vec![
        Exhibit::new(
            "ZFS, the first label alone",
            SIZE,
            vec![zfs_label(At(0))],
            &["a ZFS pool member", "at byte 131072"],
        ),
        Exhibit::new(
            "ZFS, the second label alone",
            SIZE,
            vec![zfs_label(At(256 * KIB))],
            &["a ZFS pool member", "at byte 393216"],
        ),
        Exhibit::new(
            "ZFS, the third label alone",
            SIZE,
            vec![zfs_label(Back(512 * KIB))],
            &["a ZFS pool member", "at byte 628752384"],
        ),
        Exhibit::new(
            "ZFS, the fourth label alone",
            SIZE,
            vec![zfs_label(Back(256 * KIB))],
            &["a ZFS pool member", "at byte 629014528"],
        ),
    ]
}

fn of_others() -> Vec<Exhibit> {
    vec![
        Exhibit::new("bcache, a cache", GIB, vec![Run("make-bcache", &["-C"])], &["bcache", "at byte 4120"]),
        Exhibit::new(
            "bcache, a disk behind a cache",
            GIB,
            vec![Run("make-bcache", &["-B"])],
            &["bcache", "at byte 4120"],
        ),
        Exhibit::new(
            "DRBD",
            SIZE,
            vec![written(Back(4 * KIB), &[(60, b"\x83\x74\x02\x6b")])],
            &["drbd", "at byte 629141564"],
        ),
        Exhibit::new(
            "Oracle ASM",
            SIZE,
            vec![written(At(0), &[(32, b"ORCLDISKVOL1")])],
            &["an Oracle ASM disk", "at byte 32"],
        ),
        Exhibit::new(
            "Ceph BlueStore",
            SIZE,
            vec![written(At(0), &[(0, b"bluestore block device\n5cd3a2a8-1d2c-4a9e-bb6e-6d4d8c6a4d4e\n")])],
            &["ceph_bluestore", "at byte 0"],
        ),
        Exhibit::new(
            "Stratis",
            SIZE,
            vec![written(At(0), &[(516, b"!Stra0tis\x86\xff\x02^\x41rh"), (4612, b"!Stra0tis\x86\xff\x02^\x41rh")])],
            &["data of unknown kind", "at byte 516"],
        ),
        Exhibit::new("VDO", SIZE, vec![written(At(0), &[(0, b"dmvdo001")])], &["vdo", "at byte 0"]),
    ]
}

pub(crate) fn secret() -> Vec<Exhibit> {
    let luks1: &[&str] =
        &["luksFormat", "-q", "--type", "luks1", "--pbkdf-force-iterations", "1000", "--key-file", "/etc/hostname"];
    let random = (0..64_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).flat_map(u64::to_le_bytes).collect();
    vec![
        Exhibit::new("LUKS1", GIB, vec![Run("cryptsetup", luks1)], &["LUKS encryption", "at byte 0"]),
        Exhibit::new("LUKS2", GIB, vec![Run("cryptsetup", LUKS2)], &["LUKS encryption", "at byte 0"]),
        Exhibit::new(
            "LUKS1, its header wiped: the keys are left",
            GIB,
            vec![Run("cryptsetup", luks1), Zero(At(0), 4 * KIB)],
            &["data of unknown kind"],
        ),
        Exhibit::new(
            "BitLocker",
            SIZE,
            vec![written(At(0), &[(0, b"\xeb\x58\x90-FVE-FS-")])],
            &["BitLocker", "at byte 3"],
        ),
        Exhibit::seen_at("encryption without a header", SIZE, vec![Write(At(16), random)], 24),
        Exhibit::new("dm-integrity", SIZE, vec![written(At(0), &[(0, b"integrt\0\x05")])], &["integrity", "at byte 0"]),
        Exhibit::new("dm-verity", SIZE, vec![written(At(0), &[(0, b"verity\0\0\x01")])], &["verity", "at byte 0"]),
        Exhibit::new("swap", SIZE, vec![Run("mkswap", &["-q"])], &["swap space", "at byte 4086"]),
        Exhibit::new(
            "swap that a suspended machine wrote its memory to",
            SIZE,
            vec![Run("mkswap", &["-q"]), Write(At(4086), b"S1SUSPEND\0".to_vec())],
            &["swsuspend"],
        ),
        Exhibit::new(
            "swap of pages of 64 KiB",
            SIZE,
            vec![Run("mkswap", &["-q", "-p", "65536"])],
            &["swap space", "at byte 65526"],
        ),
    ]
}

//! Parts of larger structures: partition tables, volume managers, RAID, encryption, swap, caches, clusters.

use crate::exhibit::Place::{At, Back};
use crate::exhibit::Step::{Run, Write, Zero};
use crate::exhibit::{Exhibit, GIB, KIB, MIB, Step};
use crate::exhibits::wiped::LUKS2;
use crate::headers::{backup_gpt, first_gpt, lvm, mbr, raid_0_90, raid_1, written, zfs_label};

const SIZE: u64 = 600 * MIB;

/// Returns an exhibit that one step creates on a disk of 600 MiB.
fn of_size(name: &'static str, made: Step, told: &[&str]) -> Exhibit {
    Exhibit::new(name, SIZE, vec![made], told)
}

pub(crate) fn partitions() -> Vec<Exhibit> {
    vec![
        of_size("a DOS partition table", mbr(0x83), &["a DOS partition table", "at byte 446"]),
        of_size("a protective MBR alone", mbr(0xee), &["a DOS partition table", "at byte 446"]),
        Exhibit::new("GPT without its MBR", SIZE, first_gpt(SIZE), &["a GPT partition table", "at byte 512"]),
        Exhibit::new(
            "the backup GPT alone",
            SIZE,
            backup_gpt(SIZE),
            &["a backup GPT partition table", "at byte 629145088"],
        ),
        of_size(
            "an Apple partition map",
            written(At(0), &[(0, b"ER\x02\0"), (512, b"PM\0\0\0\0\0\x01")]),
            &["at byte 0"],
        ),
        of_size("a boot sector without partitions", written(At(0), &[(510, b"\x55\xaa")]), &["at byte 510"]),
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
        of_size("LVM2", lvm(), &["an LVM physical volume", "at byte 512"]),
        of_size("Linux RAID, metadata 0.90", raid_0_90(Back(64 * KIB)), &[raid, "at byte 629080064"]),
        of_size(
            "Linux RAID, metadata 1.0",
            raid_1(Back(8 * KIB), (SIZE - 8 * KIB) / 512),
            &[raid, "at byte 629137408"],
        ),
        of_size("Linux RAID, metadata 1.1", raid_1(At(0), 0), &[raid, "at byte 0"]),
        of_size("Linux RAID, metadata 1.2", raid_1(At(4 * KIB), 8), &[raid, "at byte 4096"]),
        of_size(
            "Intel's RAID of the firmware",
            written(Back(KIB), &[(0, b"Intel Raid ISM Cfg Sig. 1.3.00")]),
            &["isw_raid_member"],
        ),
        of_size("DDF RAID", written(Back(512), &[(0, b"\xde\x11\xde\x11")]), &["ddf_raid_member", "at byte 629145088"]),
    ]
}

fn of_zfs() -> Vec<Exhibit> {
    vec![
        of_size("ZFS, the first label alone", zfs_label(At(0)), &["a ZFS pool member", "at byte 131072"]),
        of_size("ZFS, the second label alone", zfs_label(At(256 * KIB)), &["a ZFS pool member", "at byte 393216"]),
        of_size("ZFS, the third label alone", zfs_label(Back(512 * KIB)), &["a ZFS pool member", "at byte 628752384"]),
        of_size("ZFS, the fourth label alone", zfs_label(Back(256 * KIB)), &["a ZFS pool member", "at byte 629014528"]),
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
        of_size("DRBD", written(Back(4 * KIB), &[(60, b"\x83\x74\x02\x6b")]), &["drbd", "at byte 629141564"]),
        of_size("Oracle ASM", written(At(0), &[(32, b"ORCLDISKVOL1")]), &["an Oracle ASM disk", "at byte 32"]),
        of_size(
            "Ceph BlueStore",
            written(At(0), &[(0, b"bluestore block device\n5cd3a2a8-1d2c-4a9e-bb6e-6d4d8c6a4d4e\n")]),
            &["ceph_bluestore", "at byte 0"],
        ),
        of_size(
            "Stratis",
            written(At(0), &[(516, b"!Stra0tis\x86\xff\x02^\x41rh"), (4612, b"!Stra0tis\x86\xff\x02^\x41rh")]),
            &["data of unknown kind", "at byte 516"],
        ),
        of_size("VDO", written(At(0), &[(0, b"dmvdo001")]), &["vdo", "at byte 0"]),
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
        of_size("BitLocker", written(At(0), &[(0, b"\xeb\x58\x90-FVE-FS-")]), &["BitLocker", "at byte 3"]),
        Exhibit::seen_at("encryption without a header", SIZE, vec![Write(At(16), random)], 24),
        of_size("dm-integrity", written(At(0), &[(0, b"integrt\0\x05")]), &["integrity", "at byte 0"]),
        of_size("dm-verity", written(At(0), &[(0, b"verity\0\0\x01")]), &["verity", "at byte 0"]),
        of_size("swap", Run("mkswap", &["-q"]), &["swap space", "at byte 4086"]),
        Exhibit::new(
            "swap that a suspended machine wrote its memory to",
            SIZE,
            vec![Run("mkswap", &["-q"]), Write(At(4086), b"S1SUSPEND\0".to_vec())],
            &["swsuspend"],
        ),
        of_size("swap of pages of 64 KiB", Run("mkswap", &["-q", "-p", "65536"]), &["swap space", "at byte 65526"]),
    ]
}

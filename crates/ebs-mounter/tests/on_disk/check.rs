//! Checks of ext file systems: what is repaired without a person, and what is not.

use ebs_mounter::{CheckError, FsType, GrowError};
use ebs_testkit::ext_damage::{Damage, debugfs, set_error_state};

use crate::disk::{Disk, MIB, plain, with_disk};

/// True when the root directory is still the regular file that [`Damage::RootIsAFile`] makes of it: `e2fsck -y` makes another one.
fn is_untouched(disk: &Disk) -> bool {
    debugfs(&disk.device, "stat <2>").unwrap().contains("Type: regular")
}

/// A check that the superblock demands repairs nothing about which a person must decide.
#[test]
fn a_demanded_check_decides_nothing_for_a_person() {
    with_disk(async |disk| {
        disk.format(&plain(FsType::Ext4)).await;
        Damage::RootIsAFile.inflict(&disk.device).unwrap();
        set_error_state(&disk.device).unwrap();
        let (device, contents) = (disk.find().await, disk.contents().await);
        let ebs_mounter::Contents::Filesystem(superblock) = contents else { panic!("{contents}") };
        let checked = disk.mounter.check_if_needed(&device, &superblock).await;
        assert!(matches!(checked, Err(CheckError::Uncorrected(_))), "{checked:?}");
        assert!(is_untouched(disk));
    });
}

/// The full check before a growth repairs nothing about which a person must decide, and the file system does not grow.
#[test]
fn a_check_before_growth_decides_nothing_for_a_person() {
    with_disk(async |disk| {
        let superblock = disk.format(&plain(FsType::Ext4)).await;
        Damage::RootIsAFile.inflict(&disk.device).unwrap();
        disk.device.grow(256 * MIB).unwrap();
        let device = disk.find().await;
        let headroom = disk.mounter.headroom_of_unmounted(&device, &superblock).await.unwrap();
        let ebs_mounter::Superblock::Ext(ext) = &superblock else { panic!("{superblock:?}") };
        let grown = disk.mounter.grow_unmounted_ext(&device, ext, headroom.growth.expect("room to grow")).await;
        assert!(matches!(grown, Err(GrowError::Check(CheckError::Uncorrected(_)))), "{grown:?}");
        assert!(is_untouched(disk));
    });
}

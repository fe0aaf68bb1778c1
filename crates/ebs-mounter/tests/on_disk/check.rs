//! Tests which errors of ext file systems are repaired automatically.

use ebs_mounter::{CheckError, FsType, GrowError};
use ebs_testkit::ext_damage::{Damage, debugfs, set_error_state};

use crate::disk::{Disk, MIB, plain, with_disk};

/// True if the root directory is still the regular file of [`Damage::RootIsAFile`]. `e2fsck -y` would create a new
/// directory.
fn is_untouched(disk: &Disk) -> bool {
    debugfs(&disk.device, "stat <2>").unwrap().contains("Type: regular")
}

/// The superblock requires the check.
#[test]
fn required_check_makes_no_decision_for_a_person() {
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

/// The file system does not grow.
#[test]
fn check_before_growth_makes_no_decision_for_a_person() {
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

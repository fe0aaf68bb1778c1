//! Which volumes are asked for their statistics, on real block devices. Loop devices keep none: that they were asked shows
//! in the failure.

use std::collections::BTreeSet;
use std::path::Path;

use crate::disk::{Disk, with_disk};
use ebs_mounter::{Attacher, FsType, Shown, VolumeStatistics};

async fn asked(disk: &Disk, prefix: Option<&Path>) -> VolumeStatistics {
    let answer = disk.mounter.volume_statistics(prefix).await;
    assert!(answer.read.is_empty(), "a loop device has no statistics: {answer:?}");
    answer
}

fn assert_names_it(answer: &VolumeStatistics, disk: &Disk) {
    assert_eq!(answer.failed.len(), 1, "each disk is asked once: {answer:?}");
    let message = answer.failed[0].to_string();
    assert!(message.contains(disk.device.path().to_str().unwrap()), "{message}");
}

/// A volume is asked for its statistics once, however often it is mounted and bound, below the given directory or where it is
/// registered; a disk without statistics, as a simulated one is, is a failure that names it.
#[test]
fn a_volume_is_asked_once_below_the_directory_or_where_it_is_registered() {
    with_disk(async |disk| {
        let csi = disk.at("csi");
        csi.create_directory().await.unwrap();
        let (device, staging) = disk.mounted(FsType::Ext4, "csi/staging", &[]).await;
        let target = disk.at("pods-target");
        target.create_directory().await.unwrap();
        let shown = Shown::Filesystem(device.number());
        disk.mounter.bind(staging.as_path(), &target, &BTreeSet::new(), shown).await.unwrap();
        assert!(asked(disk, None).await.failed.is_empty(), "nothing is registered and no directory is given");
        let elsewhere = disk.place.path().join("elsewhere");
        assert!(asked(disk, Some(&elsewhere)).await.failed.is_empty());
        assert_names_it(&asked(disk, Some(csi.as_path())).await, disk);
        disk.mounter.register(&disk.volume, Attacher::Driver, &target, None);
        assert_names_it(&asked(disk, None).await, disk);
        assert_names_it(&asked(disk, Some(csi.as_path())).await, disk);
    });
}

/// A raw block volume is asked for its statistics, too.
#[test]
fn a_raw_block_volume_is_asked_too() {
    with_disk(async |disk| {
        let (device, target) = (disk.find().await, disk.at("raw/target"));
        target.create_file().await.unwrap();
        let shown = Shown::Device(device.number());
        disk.mounter.bind(device.path(), &target, &BTreeSet::new(), shown).await.unwrap();
        let directory = disk.at("raw");
        assert_names_it(&asked(disk, Some(directory.as_path())).await, disk);
        disk.mounter.register(&disk.volume, Attacher::Driver, &target, None);
        assert_names_it(&asked(disk, None).await, disk);
    });
}

/// A prefix with a symlink in it means the directory that it leads to.
#[test]
fn a_directory_with_a_symlink_in_it_is_the_one_that_it_leads_to() {
    with_disk(async |disk| {
        disk.at("real").create_directory().await.unwrap();
        disk.mounted(FsType::Ext4, "real/staging", &[]).await;
        let link = disk.place.path().join("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        assert_names_it(&asked(disk, Some(&link)).await, disk);
    });
}

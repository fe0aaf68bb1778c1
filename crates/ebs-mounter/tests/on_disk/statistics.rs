//! Tests which volumes are queried for their statistics, on real block devices. Loop devices have no statistics, so
//! each query appears as a failure.

use std::collections::BTreeSet;
use std::path::Path;

use crate::disk::{Disk, with_disk};
use ebs_mounter::{Attacher, FsType, MountSource, VolumeStatistics};

async fn asked(disk: &Disk, prefix: Option<&Path>) -> VolumeStatistics {
    let answer = disk.mounter.volume_statistics(prefix).await;
    assert!(answer.read.is_empty(), "a loop device has no statistics: {answer:?}");
    answer
}

fn assert_names_it(answer: &VolumeStatistics, disk: &Disk) {
    assert_eq!(answer.failed.len(), 1, "each disk is queried once: {answer:?}");
    let message = answer.failed[0].to_string();
    assert!(message.contains(disk.device.path().to_str().unwrap()), "{message}");
}

#[test]
fn volume_below_the_prefix_or_registered_is_queried_only_once() {
    with_disk(async |disk| {
        let csi = disk.at("csi");
        csi.create_directory().await.unwrap();
        let (device, staging) = disk.mounted(FsType::Ext4, "csi/staging", &[]).await;
        let target = disk.at("pods-target");
        target.create_directory().await.unwrap();
        let shown = MountSource::Filesystem(device.number());
        disk.mounter.bind(staging.as_path(), &target, &BTreeSet::new(), shown).await.unwrap();
        assert!(asked(disk, None).await.failed.is_empty(), "no registered path and no prefix");
        let elsewhere = disk.place.path().join("elsewhere");
        assert!(asked(disk, Some(&elsewhere)).await.failed.is_empty());
        assert_names_it(&asked(disk, Some(csi.as_path())).await, disk);
        disk.mounter.register(&disk.volume, Attacher::Driver, &target, None);
        assert_names_it(&asked(disk, None).await, disk);
        assert_names_it(&asked(disk, Some(csi.as_path())).await, disk);
    });
}

#[test]
fn raw_block_volume_is_queried_for_nvme_statistics() {
    with_disk(async |disk| {
        let (device, target) = (disk.find().await, disk.at("raw/target"));
        target.create_file().await.unwrap();
        let shown = MountSource::Device(device.number());
        disk.mounter.bind(device.path(), &target, &BTreeSet::new(), shown).await.unwrap();
        let directory = disk.at("raw");
        assert_names_it(&asked(disk, Some(directory.as_path())).await, disk);
        disk.mounter.register(&disk.volume, Attacher::Driver, &target, None);
        assert_names_it(&asked(disk, None).await, disk);
    });
}

#[test]
fn symlink_in_the_prefix_is_followed() {
    with_disk(async |disk| {
        disk.at("real").create_directory().await.unwrap();
        disk.mounted(FsType::Ext4, "real/staging", &[]).await;
        let link = disk.place.path().join("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        assert_names_it(&asked(disk, Some(&link)).await, disk);
    });
}

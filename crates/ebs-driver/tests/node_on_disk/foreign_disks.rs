//! Tests disks of other volumes, and other uses of the volume's disk. The driver never treats another disk as the
//! volume, and never ignores another use.

use std::os::unix::fs::MetadataExt;

use rustix::fs::{CWD, FileType, Mode, major, makedev, minor, mknodat};

use crate::prelude::*;
use crate::release::sysfs_with;

/// Publish, unpublish, expand, statistics and health accept a raw device only if it belongs to the request's volume.
#[test]
fn calls_for_a_raw_device_of_another_volume_are_refused() {
    in_mount_namespace(|| async {
        let (node, other) = (Node::new(64 * MIB), Node::new(128 * MIB));
        other.publish(other.publish_request(block())).await.unwrap();
        let names = [other.volume.as_str()];
        for path in [other.text("target"), other.disk.path().to_str().unwrap().to_owned()] {
            refused(node.expand(path).await, Code::NotFound, &names);
        }
        refused(node.stats(other.text("target")).await, Code::NotFound, &names);
        refused(node.unpublish(other.text("target")).await, Code::FailedPrecondition, &names);
        let mut request = node.publish_request(block());
        request.target_path = other.text("target");
        refused(node.publish_over_foreign(request).await, Code::FailedPrecondition, &["another mount"]);
        let health = node.health(other.text("target")).await.unwrap();
        assert_eq!(health[0].status(), csi::VolumeHealthErrorType::Inaccessible);
        assert!(health[0].message.contains(other.volume.as_str()), "{}", health[0].message);
        assert_eq!(other.mounts_at("target").await.len(), 1);
        // The calls succeed for the volume to which the device belongs.
        assert!(other.health(other.text("target")).await.unwrap().is_empty());
        assert_eq!(other.expand(other.text("target")).await.unwrap(), i64::try_from(128 * MIB).unwrap());
    });
}

/// The volume's health reports that the device has vanished.
#[test]
fn vanished_raw_device_can_be_unpublished() {
    in_mount_namespace(|| async {
        // If another test gets the freed device number, the target shows that test's disk and the outcome differs. Then
        // try again.
        for _ in 0..20 {
            let node = Node::new(64 * MIB);
            node.publish(node.publish_request(block())).await.unwrap();
            let gone = node.disk.vanish().await.unwrap();
            let health = node.health(node.text("target")).await;
            let stats = node.stats(node.text("target")).await;
            let unpublished = node.unpublish(node.text("target")).await;
            if gone.number_was_reused() {
                continue;
            }
            assert_eq!(health.unwrap()[0].status(), csi::VolumeHealthErrorType::Inaccessible);
            refused(stats, Code::NotFound, &["vanished"]);
            unpublished.unwrap();
            assert!(!node.path("target").exists());
            return;
        }
        panic!("other processes took the number of each of 20 devices");
    });
}

#[test]
fn disk_without_a_serial_is_accepted_as_the_volume_only_on_xen() {
    in_mount_namespace(|| async {
        for xen in [false, true] {
            let node = Node::new(64 * MIB);
            node.staged("ext4").await;
            let number = std::fs::metadata(node.disk.path()).unwrap().rdev();
            let sys = sysfs_with(&node, "sdb", &format!("{}:{}", major(number), minor(number)));
            let calls = node.again(|config| (config.sys, config.xen) = (sys, xen));
            let staging = node.text("staging");
            let stats = calls.stats(staging.clone()).await;
            if xen {
                stats.unwrap();
                // The disk does not identify itself, so the driver compares the device name from EC2.
                let publish = |device: &str| {
                    let publish_context = context(&[("devicePath", device)]);
                    let request = node.publish_request(mount("ext4", &[]));
                    let request = csi::NodePublishVolumeRequest { publish_context, ..request };
                    calls.publish(request)
                };
                publish("/dev/xvdzz").await.unwrap_err();
                assert!(!node.path("target").exists());
                publish(node.disk.path().to_str().unwrap()).await.unwrap();
                assert_eq!(node.mounts_at("target").await.len(), 1);
                unmount(node.path("target")).await;
                calls.unpublish(staging).await.unwrap();
                continue;
            }
            let words = ["without a serial number"];
            refused(stats, Code::NotFound, &words);
            refused(calls.expand(staging.clone()).await, Code::NotFound, &words);
            refused(calls.unpublish(staging).await, Code::FailedPrecondition, &words);
            refused(calls.unstage().await, Code::FailedPrecondition, &words);
            assert_eq!(node.mounts_at("staging").await.len(), 1);
        }
    });
}

/// Bind-mounts the disk's device node at a path, as a container or another publication of the volume may do.
fn bind_raw(node: &Node, name: &str) {
    std::fs::write(node.path(name), "").unwrap();
    rustix::mount::mount_bind(node.disk.path(), node.path(name)).unwrap();
}

/// The driver also does not run a file system check on the device.
#[test]
fn device_with_a_raw_bind_mount_is_not_formatted_or_mounted() {
    with_node(async |node| {
        bind_raw(node, "elsewhere");
        let at = node.text("elsewhere");
        let stage = || node.stage(node.stage_request("ext4", &[]));
        refused(stage().await, Code::FailedPrecondition, &["bound", &at]);
        assert!(node.is_untouched());
        unmount(node.path("elsewhere")).await;
        stage().await.unwrap();
        node.unstage().await.unwrap();
        // The driver also refuses a bound disk that has a file system.
        bind_raw(node, "elsewhere");
        refused(stage().await, Code::FailedPrecondition, &["bound", &at]);
        assert!(node.mounts_at("staging").await.is_empty());
    });
}

#[test]
fn file_system_with_a_raw_bind_is_not_published_or_grown() {
    with_node_of(600 * MIB, async |node| {
        node.staged("xfs").await;
        bind_raw(node, "elsewhere");
        node.disk.grow(900 * MIB).unwrap();
        let at = node.text("elsewhere");
        let words = ["bound", at.as_str()];
        refused(node.publish(node.publish_request(mount("xfs", &[]))).await, Code::FailedPrecondition, &words);
        refused(node.expand(node.text("staging")).await, Code::FailedPrecondition, &words);
        // NodeStageVolume still succeeds, and the file system keeps its size.
        let before = node.stats(node.text("staging")).await.unwrap();
        node.staged("xfs").await;
        assert_eq!(node.stats(node.text("staging")).await.unwrap()[0].total, before[0].total);
        unmount(node.path("elsewhere")).await;
        node.expand(node.text("staging")).await.unwrap();
        assert!(node.stats(node.text("staging")).await.unwrap()[0].total > before[0].total);
    });
}

/// The bind mount refers to a previous device with the same number.
#[test]
fn raw_device_is_not_published_if_an_old_bind_has_its_number() {
    with_node(async |node| {
        // Delete the device node while it is bound, as after a forced detachment of a previous device.
        let number = std::fs::metadata(node.disk.path()).unwrap().rdev();
        let former = node.path("former");
        let device = makedev(major(number), minor(number));
        mknodat(CWD, &former, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, device).unwrap();
        std::fs::write(node.path("left"), "").unwrap();
        rustix::mount::mount_bind(&former, node.path("left")).unwrap();
        std::fs::remove_file(&former).unwrap();
        let outcome = node.publish(node.publish_request(block())).await;
        refused(outcome, Code::FailedPrecondition, &["bound", &node.text("left")]);
        assert!(node.mounts_at("target").await.is_empty());
        unmount(node.path("left")).await;
        // A bind mount of the current device is the same volume, published to another pod.
        bind_raw(node, "other-pod");
        node.publish(node.publish_request(block())).await.unwrap();
    });
}

#[test]
fn device_with_a_mounted_file_system_is_not_published_raw() {
    with_staged_node(async |node| {
        let outcome = node.publish(node.publish_request(block())).await;
        refused(outcome, Code::FailedPrecondition, &["mounted", &node.text("staging")]);
        assert!(!node.path("target").exists());
        node.unstage().await.unwrap();
        node.publish(node.publish_request(block())).await.unwrap();
    });
}

/// The mount table of the driver's own namespace does not list the mount.
#[test]
fn device_mounted_in_another_namespace_is_not_published_raw() {
    with_staged_node(async |node| {
        let mut holder = crate::release::another_namespace(node, None).await;
        unmount(node.path("staging")).await;
        let outcome = node.publish(node.publish_request(block())).await;
        refused(outcome, Code::FailedPrecondition, &["held", &format!("process {}", holder.pid())]);
        assert!(!node.path("target").exists());
        holder.kill().unwrap();
        node.publish(node.publish_request(block())).await.unwrap();
    });
}

/// The first pod holds the device exclusively.
#[test]
fn raw_device_that_a_pod_holds_is_published_to_a_second_pod() {
    with_node(async |node| {
        node.publish(node.publish_request(block())).await.unwrap();
        let _held = crate::release::exclusively(node).await;
        let second =
            csi::NodePublishVolumeRequest { target_path: node.text("second"), ..node.publish_request(block()) };
        node.publish(second).await.unwrap();
    });
}

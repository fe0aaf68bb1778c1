//! Tests that NodeUnpublishVolume and NodeUnstageVolume write a raw device's data from the kernel's memory to the disk,
//! even if another process has the device open. The kernel itself does so only when the last process closes the device.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, major, minor, mknodat};

use crate::prelude::*;
use crate::release::sysfs_with;

const BOUND: Duration = Duration::from_secs(60);
const XEN_NAME: &str = "xvdba";
/// The offset in the device at which the test writes.
const AT: u64 = 64 * 1024;
const LENGTH: usize = 64 * 4096;
static WRITTEN: [u8; LENGTH] = [0x5a; LENGTH];

/// Writes like a pod that ends without a sync. The returned file keeps the device open, as a leaked loop device would.
fn written_and_still_open_elsewhere(at: &Path, device: &Path) -> File {
    let elsewhere = File::open(device).unwrap();
    File::options().write(true).open(at).unwrap().write_all_at(&WRITTEN, AT).unwrap();
    elsewhere
}

/// Returns true if the written data is on the volume itself. Reads without the device's page cache.
fn has_reached(node: &Node, offset: u64) -> bool {
    let mut bytes = vec![0; LENGTH];
    File::open(node.disk.backing_file()).unwrap().read_exact_at(&mut bytes, offset + AT).unwrap();
    bytes == WRITTEN
}

/// Another process has the whole disk or its partition open.
#[test]
fn unpublish_and_unstage_flush_a_device_that_is_open_elsewhere() {
    in_mount_namespace(|| async {
        for (partition, offset) in [("", 0), ("1", MIB)] {
            let node = if partition.is_empty() { Node::new(64 * MIB) } else { Node::partitioned(64 * MIB) };
            let device = if partition.is_empty() { node.disk.path().to_owned() } else { node.disk.partition(1) };
            let volume_context = context(&[("partition", partition)]);
            let request = csi::NodePublishVolumeRequest { volume_context, ..node.publish_request(block()) };
            node.publish(request).await.unwrap();
            let elsewhere = written_and_still_open_elsewhere(&node.path("target"), &device);
            node.unpublish(node.text("target")).await.unwrap();
            assert!(has_reached(&node, offset), "the volume was unpublished and its data is in memory alone");
            drop(elsewhere);
            node.disk.write_at(&[0; LENGTH], offset + AT).unwrap();
            let _elsewhere = written_and_still_open_elsewhere(&device, &device);
            node.unstage().await.unwrap();
            assert!(has_reached(&node, offset), "the volume was unstaged and its data is in memory alone");
        }
    });
}

/// On Xen, the disk does not identify its volume, so the driver must remember the device name that NodePublishVolume
/// received from EC2.
#[test]
fn unstage_finds_and_flushes_a_raw_disk_on_xen() {
    with_node(async |node| {
        let xen = on_xen(node);
        let name = node.path("dev").join(XEN_NAME);
        let publish_context = context(&[("devicePath", name.to_str().unwrap())]);
        let publish = csi::NodePublishVolumeRequest { publish_context, ..node.publish_request(block()) };
        xen.publish(publish).await.unwrap();
        refused(xen.unstage().await, Code::FailedPrecondition, &["still in use", &node.text("target")]);
        xen.unpublish(node.text("target")).await.unwrap();
        let _elsewhere = written_and_still_open_elsewhere(node.disk.path(), node.disk.path());
        xen.unstage().await.unwrap();
        assert!(has_reached(node, 0), "the volume was unstaged and its data is in memory alone");
    });
}

/// Returns the node service of a Xen instance: sysfs lists the disk, which does not identify its volume.
fn on_xen(node: &Node) -> Calls {
    let number = std::fs::metadata(node.disk.path()).unwrap().rdev();
    let (sys, dev) = (sysfs_with(node, XEN_NAME, &format!("{}:{}", major(number), minor(number))), node.path("dev"));
    std::fs::create_dir(&dev).unwrap();
    mknodat(CWD, dev.join(XEN_NAME), FileType::BlockDevice, Mode::RUSR | Mode::WUSR, number).unwrap();
    node.again(|config| (config.sys, config.dev, config.xen) = (sys, dev, true))
}

/// Data that cannot be written is lost, so waiting does not help. The driver reports the loss once, and a repeated call
/// succeeds.
#[test]
fn failed_flush_is_reported_once_and_the_next_call_succeeds() {
    in_mount_namespace(|| async {
        let below = Node::new(64 * MIB);
        below.staged("ext4").await;
        let node = Node::on(&below.path("staging"), 8 * MIB);
        node.publish(node.publish_request(block())).await.unwrap();
        let _elsewhere = written_and_still_open_elsewhere(&node.path("target"), node.disk.path());
        run_tool("/usr/sbin/xfs_io", &["-x", "-c", "shutdown", &below.text("staging")], BOUND).unwrap();
        let target = node.text("target");
        refused(node.unpublish(target.clone()).await, Code::Internal, &["not synced is lost", &target]);
        assert_eq!(node.mounts_at("target").await.len(), 1, "a repeat has something to flush");
        node.unpublish(target).await.unwrap();
        refused(node.unstage().await, Code::Internal, &["not synced is lost"]);
        node.unstage().await.unwrap();
    });
}

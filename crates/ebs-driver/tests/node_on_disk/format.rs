//! Tests formatting through the RPCs, in particular the cases in which the driver must not format again.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::mount::{MountFlags, mount_bind, mount_remount};

use crate::prelude::*;

const AT: u64 = 40_960;
const PRECIOUS: &[u8] = b"precious";

/// Returns a NodeStageVolume request with arguments that mkfs rejects.
fn stage_that_mkfs_refuses(node: &Node) -> csi::NodeStageVolumeRequest {
    let mut request = node.stage_request("ext4", &[]);
    request.volume_context.insert("blocksize".to_owned(), "3".to_owned());
    request
}

/// Stages a blank volume with an mkfs that is killed.
pub(crate) async fn interrupt(node: &Node) {
    let _replaced = ReplacedTool::by_script("mke2fs", "kill -9 $$").unwrap();
    refused(node.stage(node.stage_request("ext4", &[])).await, Code::Internal, &["mke2fs", "signal 9"]);
    assert_eq!(records(node), 1);
}

fn records(node: &Node) -> usize {
    let entries = std::fs::read_dir(node.path("state")).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("format-")).count()
}

/// Writes data that must be kept, as a pod with a raw block volume does.
async fn write_raw(node: &Node) {
    node.publish(node.publish_request(block())).await.unwrap();
    let device = File::options().write(true).open(node.path("target")).unwrap();
    device.write_all_at(PRECIOUS, AT).unwrap();
    device.sync_all().unwrap();
    drop(device);
    node.unpublish(node.text("target")).await.unwrap();
}

async fn is_refused_and_kept(node: &Node) {
    refused(node.stage(node.stage_request("ext4", &[])).await, Code::FailedPrecondition, &["not blank", "wipe"]);
    assert_eq!(node.disk.read_at(PRECIOUS.len(), AT).unwrap(), PRECIOUS);
}

/// A format record outlives this process, so a pod must not write to a raw device while a record could permit a later
/// format. NodePublishVolume fails while the driver cannot read the record, or cannot remove it. Once the driver can do
/// both, NodePublishVolume removes the record.
#[test]
fn raw_publish_is_refused_while_a_format_record_may_exist() {
    with_node(async |node| {
        interrupt(node).await;
        let (state, away) = (node.path("state"), node.path("away"));
        std::fs::rename(&state, &away).unwrap();
        // Every access below a symbolic link to itself fails.
        std::os::unix::fs::symlink(&state, &state).unwrap();
        let publish = node.publish(node.publish_request(block())).await;
        refused(publish, Code::Unavailable, &["record", state.to_str().unwrap()]);
        assert!(node.mounts_at("target").await.is_empty());
        std::fs::remove_file(&state).unwrap();
        std::fs::rename(&away, &state).unwrap();
        mount_bind(&state, &state).unwrap();
        mount_remount(&state, MountFlags::BIND | MountFlags::RDONLY, "").unwrap();
        node.publish(node.publish_request(block())).await.unwrap_err();
        assert!(node.mounts_at("target").await.is_empty());
        unmount(&state).await;
        write_raw(node).await;
        assert_eq!(records(node), 0);
        is_refused_and_kept(node).await;
    });
}

#[test]
fn raw_data_after_a_failed_format_is_kept() {
    with_node(async |node| {
        refused(node.stage(stage_that_mkfs_refuses(node)).await, Code::Internal, &["mke2fs"]);
        assert_eq!(records(node), 0);
        write_raw(node).await;
        is_refused_and_kept(node).await;
    });
}

/// An administrator has detached the volume and attached it again.
#[test]
fn reattached_volume_with_old_attach_time_is_not_formatted() {
    in_mount_namespace(|| async {
        let mut node = Node::new(64 * MIB);
        interrupt(&node).await;
        node.disk.write_at(PRECIOUS, AT).unwrap();
        node.disk.attach_again().await.unwrap();
        is_refused_and_kept(&node).await;
    });
}

/// The new file system fills the grown volume.
#[test]
fn interrupted_format_is_finished_after_the_volume_grew() {
    with_node(async |node| {
        interrupt(node).await;
        // Half of an ext4 file system: the tables are written, but the superblock is missing.
        node.disk.write_at(&[0xff; 4096], 12 * 4096).unwrap();
        node.disk.grow(192 * MIB).unwrap();
        node.staged("ext4").await;
        assert_eq!(records(node), 0);
        let total = node.stats(node.text("staging")).await.unwrap()[0].total;
        assert!(total > i64::try_from(128 * MIB).unwrap(), "{total} bytes");
    });
}

/// The driver also removes records from a previous kernel boot. It keeps a record that may still permit a format.
#[test]
fn format_records_for_missing_disks_are_removed_at_startup() {
    in_mount_namespace(|| async {
        let mut node = Node::new(64 * MIB);
        interrupt(&node).await;
        let record = std::fs::read_to_string(node.path("state").join(format!("format-{}", node.volume))).unwrap();
        let boot = record.lines().find(|line| line.starts_with("boot=")).unwrap();
        let other = record.replace(boot, "boot=3bd5cb53-7200-4b16-a2f7-55ed1954f190");
        std::fs::write(node.path("state/format-vol-0abc"), other).unwrap();
        let _started = node.again(|_| {});
        assert_eq!(records(&node), 1);
        let kept = node.path("state").join(format!("format-{}", node.volume));
        assert!(kept.exists(), "the record of the present disk is kept");
        node.disk.attach_again().await.unwrap();
        let _started = node.again(|_| {});
        assert_eq!(records(&node), 0);
    });
}

#[test]
fn unstage_removes_the_record_of_an_interrupted_format() {
    with_node(async |node| {
        interrupt(node).await;
        node.disk.write_at(&[0xff; 4096], 12 * 4096).unwrap();
        node.unstage().await.unwrap();
        refused(node.stage(node.stage_request("ext4", &[])).await, Code::FailedPrecondition, &["not blank"]);
    });
}

/// The driver removes the record even if that mount fails.
#[test]
fn format_record_is_removed_before_the_first_mount() {
    with_node(async |node| {
        // The format succeeds and the mount fails. No record may remain, because a later mount of the volume may allow
        // writes.
        refused(node.stage(node.stage_request("ext4", &["nonsense"])).await, Code::InvalidArgument, &["nonsense"]);
        assert!(!node.is_untouched(), "it was formatted");
        assert_eq!(records(node), 0);
        node.staged("ext4").await;
    });
}

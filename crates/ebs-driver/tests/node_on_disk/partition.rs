//! Tests a partition of the volume instead of the whole disk, on real partitions.

use crate::prelude::*;

const WHOLE: u64 = 64 * MIB;

/// Data before the partition, which must not change.
const BEFORE: &[u8] = b"not the partition's";

/// Runs a test with a node whose disk has partition 1, which begins at the second MiB.
fn with_partition(test: impl AsyncFnOnce(&Node) + Send + 'static) {
    in_mount_namespace(|| async move {
        let node = Node::partitioned(WHOLE);
        node.disk.write_at(BEFORE, 4096).unwrap();
        test(&node).await;
        assert_eq!(node.disk.read_at(BEFORE.len(), 4096).unwrap(), BEFORE);
    });
}

fn stage_request(node: &Node, partition: &str) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest {
        volume_context: context(&[("partition", partition)]),
        ..node.stage_request("ext4", &[])
    }
}

/// The driver proves that the partition is blank, and formats, mounts, publishes and unstages it. The rest of the disk
/// does not change.
#[test]
fn partition_is_staged_and_the_rest_of_the_disk_is_unchanged() {
    with_partition(async |node| {
        for round in 0..2 {
            node.stage(stage_request(node, "1")).await.unwrap();
            let source = node.mounts_at("staging").await[0].source.clone();
            assert_eq!(std::path::Path::new(&source), node.disk.partition(1));
            node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
            if round == 0 {
                std::fs::write(node.path("target/file"), "kept").unwrap();
            }
            assert_eq!(std::fs::read_to_string(node.path("target/file")).unwrap(), "kept");
            // A partition does not grow with its disk, so NodeExpandVolume returns the partition's current size.
            let size = node.expand_to(node.text("target"), i64::try_from(WHOLE).unwrap()).await.unwrap();
            assert_eq!(size, i64::try_from(WHOLE - MIB).unwrap());
            refused(node.unstage().await, Code::FailedPrecondition, &["still in use"]);
            node.unpublish(node.text("target")).await.unwrap();
            node.unstage().await.unwrap();
        }
    });
}

#[test]
fn disk_with_a_mounted_partition_is_not_published_raw() {
    with_partition(async |node| {
        node.stage(stage_request(node, "1")).await.unwrap();
        let outcome = node.publish(node.publish_request(block())).await;
        refused(outcome, Code::FailedPrecondition, &["also mounted at", &node.text("staging")]);
        node.unstage().await.unwrap();
        node.publish(node.publish_request(block())).await.unwrap();
        refused(node.stage(stage_request(node, "1")).await, Code::FailedPrecondition, &["bound as a raw device"]);
    });
}

/// The error names the missing partition's number.
#[test]
fn partition_is_published_raw_and_a_missing_one_is_not_found() {
    with_partition(async |node| {
        let raw = |partition: &str| csi::NodePublishVolumeRequest {
            volume_context: context(&[("partition", partition)]),
            ..node.publish_request(block())
        };
        node.publish(raw("1")).await.unwrap();
        let usage = node.stats(node.text("target")).await.unwrap();
        assert_eq!(usage[0].total, i64::try_from(WHOLE - MIB).unwrap());
        refused(node.stage(stage_request(node, "1")).await, Code::FailedPrecondition, &["bound as a raw device"]);
        node.unpublish(node.text("target")).await.unwrap();
        refused(node.publish(raw("2")).await, Code::NotFound, &["no partition 2", node.volume.as_str()]);
        refused(node.stage(stage_request(node, "2")).await, Code::NotFound, &["no partition 2"]);
    });
}

/// The request is for the whole disk. The error names the attribute and the existing partitions.
#[test]
fn error_for_a_partitioned_disk_names_the_partition_attribute() {
    with_partition(async |node| {
        // A partition table with one Linux partition, which begins at the second MiB.
        let mut table = vec![0; 512];
        let (start, sectors) = (2048_u32, u32::try_from((WHOLE - MIB) / 512).unwrap());
        table[450] = 0x83;
        table[454..458].copy_from_slice(&start.to_le_bytes());
        table[458..462].copy_from_slice(&sectors.to_le_bytes());
        table[510..].copy_from_slice(&[0x55, 0xaa]);
        node.disk.write_at(&table, 0).unwrap();
        let whole = || node.stage(node.stage_request("ext4", &[]));
        let words = ["partition table", r#"set the volume attribute partition: "1""#, "partitions: 1"];
        refused(whole().await, Code::FailedPrecondition, &words);
        node.stage(stage_request(node, "1")).await.unwrap();
        node.unstage().await.unwrap();
        assert_eq!(node.disk.read_at(512, 0).unwrap(), table);
    });
}

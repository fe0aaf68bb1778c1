//! Requests whose client has left: the driver finishes the current step and changes nothing more.

use std::time::Duration;

use csi_proto::csi;
use csi_proto::csi::node_server::Node as _;
use ebs_driver::node::NodeService;
use ebs_driver::operation::Operations;
use ebs_testkit::kubelet;
use tonic::{Request, Status};

use crate::node::{Node, block, mount, with_node};
use crate::traced_tools::TracedTools;

const BOUND: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(10);

/// Sends a request to a new node service, leaves at once, and waits until the work has ended.
async fn left<T>(node: &Node, call: impl AsyncFnOnce(NodeService) -> Result<T, Status>) {
    let operations = Operations::new();
    // Polling once starts the work, which has not run when the client leaves.
    let outcome = tokio::select! {
        biased;
        outcome = call(node.again_within(operations.clone())) => Some(outcome.map(drop)),
        () = std::future::ready(()) => None,
    };
    assert!(outcome.is_none() && operations.running().len() == 1, "it has ended before its client left");
    let over = async {
        while !operations.running().is_empty() {
            tokio::time::sleep(GLANCE).await;
        }
    };
    tokio::time::timeout(BOUND, over).await.expect("work that ends");
}

#[test]
fn abandoned_request_changes_no_format_or_mount() {
    with_node(async |node| {
        let stage = node.stage_request("ext4", &[]);
        let publish = node.publish_request(mount("ext4", &[]));
        let unpublish =
            csi::NodeUnpublishVolumeRequest { volume_id: node.volume.to_string(), target_path: node.text("target") };
        left(node, async |service| kubelet::stage(&service, stage.clone()).await).await;
        assert!(node.is_untouched());
        // With a file system, only the mount remains to be done.
        node.staged("ext4").await;
        node.unstage().await.unwrap();
        left(node, async |service| kubelet::stage(&service, stage).await).await;
        assert!(node.mounts_at("staging").await.is_empty());
        node.staged("ext4").await;
        left(node, async |service| service.node_publish_volume(Request::new(publish.clone())).await).await;
        assert!(!node.path("target").exists());
        node.publish(publish).await.unwrap();
        left(node, async |service| service.node_unpublish_volume(Request::new(unpublish)).await).await;
        assert_eq!(node.mounts_at("target").await.len(), 1);
        node.unpublish(node.text("target")).await.unwrap();
        left(node, async |service| service.node_unstage_volume(Request::new(node.unstage_request())).await).await;
        assert_eq!(node.mounts_at("staging").await.len(), 1);
        node.unstage().await.unwrap();
    });
}

#[test]
fn abandoned_raw_publish_binds_nothing() {
    with_node(async |node| {
        let publish = node.publish_request(block());
        left(node, async |service| service.node_publish_volume(Request::new(publish)).await).await;
        assert!(!node.path("target").exists());
    });
}

/// The file system needs a check.
#[test]
fn abandoned_stage_checks_nothing() {
    with_node(async |node| {
        node.staged("ext2").await;
        node.unstage().await.unwrap();
        // "Errors detected". The superblock of ext2 has no checksum.
        node.disk.write_at(&[2, 0], 1024 + 0x3a).unwrap();
        let tools = TracedTools::that_fail(node);
        let request = node.stage_request("ext2", &[]);
        left(node, async |service| kubelet::stage(&service, request).await).await;
        assert_eq!(tools.started(), [] as [&str; 0]);
        drop(tools);
        node.staged("ext2").await;
        node.unstage().await.unwrap();
    });
}

/// The expansion waits for its disk.
#[test]
fn unstage_does_not_wait_for_an_abandoned_expansion() {
    with_node(async |node| {
        node.staged("ext4").await;
        let service = node.again(|config| config.late_size = Duration::from_secs(3600));
        let request = csi::NodeExpandVolumeRequest {
            volume_id: node.volume.to_string(),
            volume_path: node.text("staging"),
            capacity_range: Some(csi::CapacityRange { required_bytes: 1 << 40, limit_bytes: 0 }),
            ..csi::NodeExpandVolumeRequest::default()
        };
        let expand = service.node_expand_volume(Request::new(request));
        assert!(tokio::time::timeout(GLANCE, expand).await.is_err(), "it waits for the disk");
        let unstage = service.node_unstage_volume(Request::new(node.unstage_request()));
        tokio::time::timeout(BOUND, unstage).await.expect("an answer").unwrap();
        assert!(node.mounts_at("staging").await.is_empty());
    });
}

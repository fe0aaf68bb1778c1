//! Tests requests that the client has cancelled: the driver finishes the current step and changes nothing more.

use tonic::Status;

use crate::prelude::*;

const BOUND: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(10);

/// Sends a request to a new node service, cancels it at once, and waits until the driver's work has ended.
async fn left(node: &Node, call: impl AsyncFnOnce(Calls) -> Result<(), Status>) {
    let operations = Operations::new();
    // A single poll starts the work. The client cancels the request before the work has progressed.
    let outcome = tokio::select! {
        biased;
        outcome = call(node.again_as((options(), operations.clone()), |_| {})) => Some(outcome),
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
fn abandoned_request_does_not_format_mount_or_bind() {
    with_node(async |node| {
        let stage = node.stage_request("ext4", &[]);
        let publish = node.publish_request(mount("ext4", &[]));
        left(node, async |calls| calls.stage(stage.clone()).await).await;
        assert!(node.is_untouched());
        // The disk already has a file system, so only the mount remains to be done.
        node.staged("ext4").await;
        node.unstage().await.unwrap();
        left(node, async |calls| calls.stage(stage).await).await;
        assert!(node.mounts_at("staging").await.is_empty());
        node.staged("ext4").await;
        left(node, async |calls| calls.publish(publish.clone()).await).await;
        assert!(!node.path("target").exists());
        node.publish(publish).await.unwrap();
        left(node, async |calls| calls.unpublish(node.text("target")).await).await;
        assert_eq!(node.mounts_at("target").await.len(), 1);
        node.unpublish(node.text("target")).await.unwrap();
        left(node, async |calls| calls.unstage().await).await;
        assert_eq!(node.mounts_at("staging").await.len(), 1);
        node.unstage().await.unwrap();
        left(node, async |calls| calls.publish(node.publish_request(block())).await).await;
        assert!(!node.path("target").exists());
    });
}

/// The file system needs a check, which the driver must not start.
#[test]
fn abandoned_stage_does_not_start_a_file_system_check() {
    with_node(async |node| {
        node.staged("ext2").await;
        node.unstage().await.unwrap();
        // Set the state "errors detected". The superblock of ext2 has no checksum.
        node.disk.write_at(&[2, 0], 1024 + 0x3a).unwrap();
        let tools = TracedTools::that_fail(node);
        let request = node.stage_request("ext2", &[]);
        left(node, async |calls| calls.stage(request).await).await;
        assert_eq!(tools.started(), [] as [&str; 0]);
        drop(tools);
        node.staged("ext2").await;
        node.unstage().await.unwrap();
    });
}

/// The abandoned expansion waits until the volume's disk has grown.
#[test]
fn unstage_does_not_wait_for_an_abandoned_expansion() {
    with_node(async |node| {
        node.staged("ext4").await;
        let calls = node.again(|config| config.late_size = Duration::from_secs(3600));
        let expand = calls.expand_to(node.text("staging"), 1 << 40);
        assert!(tokio::time::timeout(GLANCE, expand).await.is_err(), "it waits for the disk");
        tokio::time::timeout(BOUND, calls.unstage()).await.expect("an answer").unwrap();
        assert!(node.mounts_at("staging").await.is_empty());
    });
}

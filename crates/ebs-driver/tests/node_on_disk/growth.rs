//! Tests volumes that grow while a pod writes to them: no byte of the data changes, and the driver verifies the results
//! of the tools.

use std::os::unix::fs::FileExt;

use ebs_testkit::skipped::record_skipped;
use ebs_testkit::writer::Writer;

use crate::prelude::*;

/// A disk that is small enough to grow twice, and large enough for the tools.
const SIZE: u64 = 320 * MIB;

/// Returns whether this process can grow a mounted ext file system. If not, the caller skips that growth.
pub(crate) fn may_grow_mounted_ext() -> bool {
    let capabilities = rustix::thread::capabilities(None).unwrap().effective;
    let may = capabilities.contains(rustix::thread::CapabilitySet::SYS_RESOURCE);
    if !may {
        record_skipped(
            "node service grows a mounted ext4",
            "this machine lacks CAP_SYS_RESOURCE; make vm-test checks it",
        );
    }
    may
}

fn wire(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap()
}

async fn total(node: &Node, at: &str) -> i64 {
    node.stats(node.text(at)).await.unwrap()[0].total
}

/// A file system grows twice while a pod writes to it, and keeps all data, even after NodeUnstageVolume. If the kernel
/// does not permit the growth (ext without CAP_SYS_RESOURCE), the writer is not disturbed, and the next NodeStageVolume
/// call grows the file system.
#[test]
fn file_system_grows_under_a_writer_and_keeps_every_byte() {
    in_mount_namespace(|| async {
        for fs_type in ["xfs", "ext4"] {
            let node = Node::new(SIZE);
            node.staged(fs_type).await;
            node.publish(node.publish_request(mount(fs_type, &[]))).await.unwrap();
            let kept = content::write_file(&node.path("target/kept"), 11, 4 * MIB).unwrap();
            let writer = Writer::start(node.path("target/stream"));
            writer.progress().await.unwrap();
            let grows = fs_type == "xfs" || may_grow_mounted_ext();
            for factor in [2, 3] {
                node.disk.grow(factor * SIZE).unwrap();
                let outcome = node.expand(node.text("target")).await;
                if grows {
                    assert_eq!(outcome.unwrap(), wire(factor * SIZE), "{fs_type}");
                    assert!(total(&node, "target").await > wire((factor - 1) * SIZE), "{fs_type}");
                } else {
                    refused(outcome, Code::FailedPrecondition, &["CAP_SYS_RESOURCE"]);
                }
                writer.progress().await.unwrap();
            }
            let streamed = writer.end().await.unwrap();
            let same = |at: &str| {
                assert_eq!(content::hash_file(&node.path(at).join("kept")).unwrap(), kept, "{fs_type}");
                assert_eq!(content::hash_file(&node.path(at).join("stream")).unwrap(), streamed, "{fs_type}");
            };
            same("target");
            node.unpublish(node.text("target")).await.unwrap();
            node.unstage().await.unwrap();
            node.staged(fs_type).await;
            same("staging");
            assert!(total(&node, "staging").await > wire(2 * SIZE), "{fs_type} has not grown");
        }
    });
}

/// The target shows the new size, and the pod can use the added part.
#[test]
fn raw_device_grows_under_its_writer() {
    with_node(async |node| {
        node.publish(node.publish_request(block())).await.unwrap();
        let writer = Writer::start(node.path("target"));
        writer.progress().await.unwrap();
        node.disk.grow(128 * MIB).unwrap();
        assert_eq!(node.expand(node.text("target")).await.unwrap(), wire(128 * MIB));
        writer.progress().await.unwrap();
        let device = std::fs::File::options().write(true).open(node.path("target")).unwrap();
        device.write_all_at(b"behind the old end", 100 * MIB).unwrap();
        device.sync_all().unwrap();
        drop(device);
        let streamed = writer.end().await.unwrap();
        node.unpublish(node.text("target")).await.unwrap();
        assert_eq!(content::hash_start(node.disk.path(), MIB).unwrap(), streamed);
        assert_eq!(node.disk.read_at(18, 100 * MIB).unwrap(), b"behind the old end");
    });
}

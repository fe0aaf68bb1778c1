//! Tests that NodeExpandVolume waits until the kernel shows the new size, and returns OK only after the growth.

use rustix::mount::{MountFlags, mount_remount};

use crate::failed_growth::give_up_growth_of_mounted_ext;
use crate::prelude::*;

const SIZE: u64 = 320 * MIB;
fn wire(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap()
}

async fn published(fs_type: &str, flags: &[&str], bytes: u64) -> Node {
    let node = Node::new(bytes);
    node.stage(node.stage_request(fs_type, flags)).await.unwrap();
    node.publish(node.publish_request(mount(fs_type, flags))).await.unwrap();
    node
}

/// EC2 reports a new size some seconds before the instance's kernel shows it.
#[test]
fn expand_returns_unavailable_until_the_kernel_shows_the_size() {
    in_mount_namespace(|| async {
        let node = published("xfs", &[], SIZE).await;
        let raw = Node::new(64 * MIB);
        raw.publish(raw.publish_request(block())).await.unwrap();
        for (node, size) in [(&node, SIZE), (&raw, 64 * MIB)] {
            let words = [size.to_string(), (2 * size).to_string()];
            let words = [words[0].as_str(), words[1].as_str()];
            refused(node.expand_to(node.text("target"), wire(2 * size)).await, Code::Unavailable, &words);
            assert_eq!(node.expand_to(node.text("target"), wire(size)).await.unwrap(), wire(size));
            node.disk.grow(2 * size).unwrap();
            assert_eq!(node.expand_to(node.text("target"), wire(2 * size)).await.unwrap(), wire(2 * size));
        }
    });
}

/// NodeExpandVolume returns an error and runs no tool.
#[test]
fn file_system_turned_read_only_does_not_grow() {
    in_mount_namespace(|| async {
        let node = published("ext4", &["errors=remount-ro"], SIZE).await;
        let mut reader = node.publish_request(mount("ext4", &[]));
        (reader.target_path, reader.readonly) = (node.text("reader"), true);
        node.publish(reader).await.unwrap();
        std::fs::write(format!("/sys/fs/ext4/{}/trigger_fs_error", node.disk.name()), "test").unwrap();
        node.disk.grow(2 * SIZE).unwrap();
        let tools = TracedTools::that_fail(&node);
        // The call also fails at the path of a pod that asked for a read-only mount.
        for at in ["target", "staging", "reader"] {
            let words = ["read-only after errors", "1 error"];
            refused(node.expand(node.text(at)).await, Code::FailedPrecondition, &words);
        }
        assert_eq!(tools.started(), [] as [&str; 0]);
    });
}

/// A repeated NodeStageVolume call also changes nothing. The volume counts as healthy, because only read-only mounts
/// were requested.
#[test]
fn expansion_of_a_read_only_mount_changes_nothing() {
    in_mount_namespace(|| async {
        for fs_type in ["xfs", "ext4"] {
            let node = Node::new(SIZE);
            node.staged(fs_type).await;
            node.unstage().await.unwrap();
            node.disk.grow(2 * SIZE).unwrap();
            let tools = TracedTools::that_fail(&node);
            node.stage(node.stage_request(fs_type, &["ro"])).await.unwrap();
            let before = node.mounts_at("staging").await;
            node.stage(node.stage_request(fs_type, &["ro"])).await.unwrap();
            assert_eq!(node.mounts_at("staging").await, before, "{fs_type}");
            node.publish(node.publish_request(mount(fs_type, &["ro"]))).await.unwrap();
            for at in ["target", "staging"] {
                assert_eq!(node.expand(node.text(at)).await.unwrap(), wire(2 * SIZE), "{fs_type}");
            }
            assert_eq!(tools.started(), [] as [&str; 0], "{fs_type}");
            drop(tools);
            node.service.check_volumes().await;
            assert_eq!((node.service.unhealthy_volumes(), node.service.volumes_not_grown()), (vec![], vec![]));
        }
    });
}

/// The file system itself is writable.
#[test]
fn expansion_at_a_read_only_target_grows_the_file_system() {
    with_node_of(SIZE, async |node| {
        node.staged("xfs").await;
        let mut reader = node.publish_request(mount("xfs", &[]));
        reader.readonly = true;
        node.publish(reader).await.unwrap();
        node.disk.grow(2 * SIZE).unwrap();
        node.expand(node.text("target")).await.unwrap();
        assert!(node.stats(node.text("target")).await.unwrap()[0].total > wire(SIZE + SIZE / 2));
    });
}

/// An administrator has remounted the superblock read-only below a writable mount. The driver cannot find out why the
/// superblock is read-only, and reports that the file system has not grown.
#[test]
fn file_system_remounted_read_only_does_not_grow() {
    with_staged_node(async |node| {
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        mount_remount(node.path("staging"), MountFlags::RDONLY, "").unwrap();
        node.disk.grow(2 * SIZE).unwrap();
        refused(node.expand(node.text("target")).await, Code::FailedPrecondition, &["read-only"]);
    });
}

/// The kernel requires CAP_SYS_RESOURCE, which the error names. A second NodeStageVolume call succeeds without
/// unmounting the volume, because a mount after the unmount might fail.
#[test]
fn ext4_in_use_does_not_grow_without_cap_sys_resource() {
    in_mount_namespace(|| async {
        give_up_growth_of_mounted_ext();
        let node = published("ext4", &[], SIZE).await;
        node.disk.grow(2 * SIZE).unwrap();
        let said = refused(node.expand(node.text("target")).await, Code::FailedPrecondition, &["CAP_SYS_RESOURCE"]);
        assert!(said.contains("before its next mount"), "{said}");
        let (before, tools) = (node.mounts_at("staging").await, TracedTools::that_fail(&node));
        for target in ["target", "none"] {
            let log = Log::listen();
            node.staged("ext4").await;
            assert_eq!(node.mounts_at("staging").await, before);
            // The kernel reuses the IDs of removed mounts, so only the log can show that the volume was not mounted
            // again.
            assert_eq!(log.lines_with(&[" staged ", "fs=ext4"]), Vec::<String>::new());
            node.unpublish(node.text(target)).await.unwrap();
        }
        assert_eq!(tools.started(), [] as [&str; 0]);
        drop(tools);
        node.unstage().await.unwrap();
        node.staged("ext4").await;
        assert!(node.stats(node.text("staging")).await.unwrap()[0].total > wire(SIZE + SIZE / 2));
    });
}

/// The wait ends as soon as the disk has grown, not at its timeout.
#[test]
fn expansion_waits_until_the_kernel_shows_the_size() {
    in_mount_namespace(|| async {
        let node = Node::with(SIZE, |config| config.late_size = Duration::from_secs(600));
        node.staged("xfs").await;
        let (size, ()) = tokio::join!(node.expand_to(node.text("staging"), wire(2 * SIZE)), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            node.disk.grow(2 * SIZE).unwrap();
        });
        assert_eq!(size.unwrap(), wire(2 * SIZE));
        assert!(node.stats(node.text("staging")).await.unwrap()[0].total > wire(SIZE + SIZE / 2));
    });
}

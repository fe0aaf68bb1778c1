//! Tests what NodeStageVolume changes in a file system before its mount, in particular the cases in which it must
//! change nothing.

use crate::failed_growth::give_up_growth_of_mounted_ext;
use crate::prelude::*;
use crate::traced_tools::real;

const SIZE: u64 = 320 * MIB;
const BOUND: Duration = Duration::from_secs(30);
/// The offset of the state field in an ext file system. ext2 and ext3 have no checksum for it.
const STATE: u64 = 1024 + 0x3a;

/// Returns a node with an unstaged volume whose file system needs a check and is smaller than its disk.
async fn in_need_of_a_check(fs_type: &str) -> Node {
    let node = Node::new(SIZE);
    node.staged(fs_type).await;
    node.unstage().await.unwrap();
    node.disk.write_at(&[2, 0], STATE).unwrap();
    node.disk.grow(2 * SIZE).unwrap();
    node
}

/// The driver runs no tool on a disk that rejects writes.
#[test]
fn read_only_disk_is_neither_checked_nor_grown() {
    in_mount_namespace(|| async {
        let node = in_need_of_a_check("ext2").await;
        let set =
            |word: &str| run_tool("/usr/sbin/blockdev", &[word, node.disk.path().to_str().unwrap()], BOUND).unwrap();
        set("--setro");
        let tools = TracedTools::that_fail(&node);
        let outcome = node.stage(node.stage_request("ext2", &[])).await;
        let started = tools.started();
        set("--setrw");
        refused(outcome, Code::Internal, &["the kernel rejected the mount"]);
        assert_eq!(started, [] as [&str; 0]);
    });
}

/// The driver also mounts the file system at this node's path, but no tool checks or grows it.
#[test]
fn file_system_mounted_elsewhere_is_not_checked_or_grown() {
    in_mount_namespace(|| async {
        give_up_growth_of_mounted_ext();
        let node = in_need_of_a_check("ext3").await;
        std::fs::create_dir(node.path("elsewhere")).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount(node.disk.path(), node.path("elsewhere"), "ext3", flags, None).unwrap();
        let tools = TracedTools::that_fail(&node);
        node.staged("ext3").await;
        assert_eq!(tools.started(), [] as [&str; 0]);
        assert_eq!(node.mounts_at("staging").await.len(), 1);
    });
}

/// The driver may repeat an interrupted mkfs. It must never format a file system that was complete and in use, even if
/// the next check of that file system fails.
#[test]
fn format_record_is_removed_before_the_file_system_check() {
    with_node(async |node| {
        let record = node.path("state").join(format!("format-{}", node.volume));
        let noted = format!("cp {} {}", record.display(), node.path("kept").display());
        // The record exists from just before mkfs until just before the mount, so copy it while mkfs runs.
        let tools = TracedTools::new(node, &[("mke2fs", &format!("{noted}; {}", real(node, "mke2fs")))]);
        node.staged("ext2").await;
        drop(tools);
        node.unstage().await.unwrap();
        assert!(!record.exists());
        std::fs::copy(node.path("kept"), &record).unwrap();
        node.disk.write_at(&[2, 0], STATE).unwrap();
        let tools = TracedTools::new(node, &[("e2fsck", "exit 4")]);
        refused(node.stage(node.stage_request("ext2", &[])).await, Code::FailedPrecondition, &["e2fsck by hand"]);
        drop(tools);
        assert!(!record.exists(), "the record would permit a format of a used file system");
    });
}

/// After mkfs, the driver reads the contents of the device again before it mounts anything.
#[test]
fn mkfs_that_creates_no_file_system_is_detected() {
    with_node(async |node| {
        let tools = TracedTools::new(node, &[("mke2fs", "exit 0")]);
        let words = ["mkfs reported success", "nothing"];
        refused(node.stage(node.stage_request("ext4", &[])).await, Code::Internal, &words);
        drop(tools);
        // The driver also detects an mkfs that makes another file system.
        let own = node.path("mke2fs");
        std::fs::copy("/usr/sbin/mke2fs", &own).unwrap();
        let other = format!("exec {} -q -F -t ext2 {}", own.display(), node.disk.path().display());
        let tools = TracedTools::new(node, &[("mkfs.xfs", &other)]);
        let outcome = node.stage(node.stage_request("xfs", &[])).await;
        drop(tools);
        let status = outcome.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{status:?}");
        assert!(node.mounts_at("staging").await.is_empty());
    });
}

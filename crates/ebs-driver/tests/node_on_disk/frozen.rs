//! Tests file systems that a backup hook or an administrator froze and did not thaw. A frozen file system stays alive
//! even without a mount, and the first write through a later mount would hang.

use std::path::{Path, PathBuf};

use ebs_mounter::{Mounter, MounterConfig};
use ebs_testkit::process::tool;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount as unmount_now};

use crate::node;
use crate::prelude::*;

const FSFREEZE: &str = "/usr/sbin/fsfreeze";
const BOUND: Duration = Duration::from_secs(60);

async fn freeze(at: &Path) -> Result<String, Box<dyn std::error::Error>> {
    Ok(tool(FSFREEZE, &["--freeze", at.to_str().unwrap()], BOUND).await?)
}

/// Thaws a node's file system when the test ends, even if the test fails. Otherwise, waiting processes could not be
/// killed, and the removal of the test's directory would hang.
pub(crate) struct Thawed {
    device: PathBuf,
    place: tempfile::TempDir,
}

impl Thawed {
    fn of(node: &Node) -> Self {
        Self { device: node.disk.path().to_owned(), place: tempfile::tempdir().unwrap() }
    }

    /// Freezes the file system at one of the node's paths.
    pub(crate) async fn after(node: &Node, at: &str) -> Self {
        let thawed = Self::of(node);
        freeze(&node.path(at)).await.expect("a frozen file system");
        thawed
    }
}

impl Drop for Thawed {
    fn drop(&mut self) {
        // A new mount of the device shows the live file system, even if that is also mounted elsewhere.
        let place = self.place.path();
        if mount(&self.device, place, "ext4", MountFlags::empty(), None).is_ok()
            || mount(&self.device, place, "xfs", MountFlags::empty(), None).is_ok()
        {
            let _was_not_frozen = run_tool(FSFREEZE, &["--unfreeze", place.to_str().unwrap()], BOUND);
            unmount_now(place, UnmountFlags::DETACH).expect("unmounted");
        }
    }
}

/// Checks that a write returns. The write runs in a separate process, because a write that hangs makes its process
/// unkillable.
async fn can_be_written(node: &Node, at: &str) {
    let file = node.text(&format!("{at}/written"));
    tool("/usr/bin/touch", &[&file], BOUND).await.expect("a write that comes back");
}

#[test]
fn frozen_file_system_is_thawed_by_unstage() {
    in_mount_namespace(|| async {
        for fs in ["ext4", "xfs"] {
            let node = Node::new(320 * MIB);
            node.staged(fs).await;
            node.publish(node.publish_request(node::mount(fs, &[]))).await.unwrap();
            let _thawed = Thawed::after(&node, "target").await;
            node.unpublish(node.text("target")).await.unwrap();
            let log = Log::listen();
            node.unstage().await.unwrap();
            assert_eq!(log.lines_with(&["WARN", "thawed", &node.text("staging")]).len(), 1);
            drop(log);
            node.staged(fs).await;
            can_be_written(&node, "staging").await;
            node.unstage().await.unwrap();
        }
    });
}

/// A pod's hook freezes the volume while the pod runs. The driver must not thaw the volume when another pod stops using
/// it.
#[test]
fn unpublish_keeps_a_staged_file_system_frozen() {
    with_staged_node(async |node| {
        node.publish(node.publish_request(node::mount("ext4", &[]))).await.unwrap();
        let thawed = Thawed::after(node, "staging").await;
        node.unpublish(node.text("target")).await.unwrap();
        freeze(&node.path("staging")).await.expect_err("it is frozen still");
        node.staged("ext4").await;
        freeze(&node.path("staging")).await.expect_err("it is frozen still");
        drop(thawed);
        can_be_written(node, "staging").await;
    });
}

/// The program that froze the volume ended with its pod. The first write of the next pod must not hang.
#[test]
fn writable_publish_thaws_an_unused_frozen_volume() {
    in_mount_namespace(|| async {
        for fs in ["ext4", "xfs"] {
            let node = Node::new(320 * MIB);
            node.staged(fs).await;
            let publish = |target: &str, readonly: bool| {
                let target_path = node.text(target);
                csi::NodePublishVolumeRequest { target_path, readonly, ..node.publish_request(node::mount(fs, &[])) }
            };
            node.publish(publish("target", false)).await.unwrap();
            let _thawed = Thawed::after(&node, "target").await;
            // While a pod uses the volume, the freeze may belong to a running backup.
            node.publish(publish("other", false)).await.unwrap();
            freeze(&node.path("staging")).await.expect_err("it is frozen still");
            for target in ["target", "other"] {
                node.unpublish(node.text(target)).await.unwrap();
            }
            // A pod that only reads does not hang, so the driver need not thaw.
            node.publish(publish("reader", true)).await.unwrap();
            freeze(&node.path("staging")).await.expect_err("it is frozen still");
            node.unpublish(node.text("reader")).await.unwrap();
            let log = Log::listen();
            node.publish(publish("target", false)).await.unwrap();
            assert_eq!(log.lines_with(&["WARN", "thawed", &node.text("staging")]).len(), 1);
            drop(log);
            can_be_written(&node, "target").await;
            node.unpublish(node.text("target")).await.unwrap();
            node.unstage().await.unwrap();
        }
    });
}

/// Waits until xfs_growfs hangs in the kernel with one of the node's paths as its argument.
async fn growth_hangs(node: &Node) {
    let place = node.place.path().to_str().unwrap();
    let hangs = |process: &Path| {
        let arguments = std::fs::read_to_string(process.join("cmdline")).unwrap_or_default();
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        arguments.contains("xfs_growfs") && arguments.contains(place) && state.starts_with('D')
    };
    let found = async {
        loop {
            let processes = std::fs::read_dir("/proc").unwrap();
            if processes.filter_map(Result::ok).any(|process| hangs(&process.path())) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(BOUND, found).await.expect("a growth that hangs");
}

/// Replaces xfs_growfs: the new program freezes the file system at the staging path, as a hook could at this moment,
/// and then runs the real tool.
fn growfs_that_meets_a_freeze(node: &Node) -> ReplacedTool {
    let (copy, staging) = (node.text("xfs_growfs"), node.text("staging"));
    std::fs::copy("/usr/sbin/xfs_growfs", &copy).unwrap();
    let script = format!("{FSFREEZE} --freeze {staging}\nexec {copy} \"$@\"");
    ReplacedTool::by_script("xfs_growfs", &script).unwrap()
}

/// On a frozen file system, xfs_growfs waits in the kernel, and the operation that started it waits, too. Only
/// NodeUnstageVolume thaws, so neither NodeUnstageVolume nor NodeUnpublishVolume may wait for xfs_growfs first.
#[test]
fn growth_blocked_by_a_freeze_does_not_block_unstage() {
    in_mount_namespace(|| async {
        for grows_at_stage in [false, true] {
            let node = Node::new(320 * MIB);
            node.staged("xfs").await;
            if !grows_at_stage {
                node.publish(node.publish_request(node::mount("xfs", &[]))).await.unwrap();
            }
            node.disk.grow(640 * MIB).unwrap();
            let _thawed = Thawed::of(&node);
            let replaced = growfs_that_meets_a_freeze(&node);
            // The client cancels its request while the tool hangs.
            tokio::select! {
                () = growth_hangs(&node) => {}
                outcome = node.expand(node.text("target")), if !grows_at_stage => panic!("{outcome:?}"),
                outcome = node.stage(node.stage_request("xfs", &[])), if grows_at_stage => panic!("{outcome:?}"),
            }
            if !grows_at_stage {
                // The pod still runs, and may have frozen the file system for a backup.
                let early = tokio::time::timeout(Duration::from_secs(1), node.unstage()).await;
                assert!(!matches!(early, Ok(Ok(()))), "{early:?}");
                freeze(&node.path("target")).await.expect_err("it is frozen still");
                node.unpublish(node.text("target")).await.unwrap();
            }
            let unstaged = tokio::time::timeout(BOUND, node.unstage()).await;
            unstaged.expect("an unstage that comes back").unwrap();
            drop(replaced);
            node.staged("xfs").await;
            can_be_written(&node, "staging").await;
            node.unstage().await.unwrap();
        }
    });
}

/// The driver does not run xfs_growfs, because it would hang. A pod uses the volume, so the driver must not thaw it,
/// and a NodeStageVolume call that hangs would block NodeUnpublishVolume forever.
#[test]
fn growth_of_a_frozen_file_system_does_not_hang() {
    with_node_of(320 * MIB, async |node| {
        node.staged("xfs").await;
        node.publish(node.publish_request(node::mount("xfs", &[]))).await.unwrap();
        node.disk.grow(640 * MIB).unwrap();
        let _thawed = Thawed::after(node, "target").await;
        let expanded = tokio::time::timeout(2 * BOUND, node.expand(node.text("target"))).await;
        refused(expanded.expect("an expansion that comes back"), Code::Unavailable, &["frozen"]);
        let staged = tokio::time::timeout(2 * BOUND, node.stage(node.stage_request("xfs", &[]))).await;
        staged.expect("a stage that comes back").unwrap();
        freeze(&node.path("target")).await.expect_err("it is frozen still");
        node.unpublish(node.text("target")).await.unwrap();
        node.unstage().await.unwrap();
    });
}

/// The driver's test write hangs while the file system is frozen. NodeUnstageVolume must still thaw the file system.
#[test]
fn test_write_blocked_by_a_freeze_does_not_block_unstage() {
    with_staged_node(async |node| {
        let _thawed = Thawed::after(node, "staging").await;
        let mounter = Mounter::new(MounterConfig::new(node.path("other-state"))).unwrap();
        let tried = tokio::time::timeout(Duration::ZERO, mounter.can_write(&node.path("staging"))).await;
        tried.expect_err("a try that hangs");
        node.unstage().await.unwrap();
        node.staged("ext4").await;
        can_be_written(node, "staging").await;
        node.unstage().await.unwrap();
    });
}

/// NodeUnstageVolume and NodeStageVolume both thaw the file system. An earlier driver version, or a hook that froze the
/// file system during the unmount, may have left it in this state.
#[test]
fn frozen_file_system_without_a_mount_is_thawed() {
    in_mount_namespace(|| async {
        for (fs, by_stage) in [("ext4", false), ("xfs", false), ("ext4", true)] {
            let node = Node::new(320 * MIB);
            node.staged(fs).await;
            let _thawed = Thawed::after(&node, "staging").await;
            unmount(node.path("staging")).await;
            let log = Log::listen();
            if by_stage {
                node.staged(fs).await;
            } else {
                node.unstage().await.unwrap();
            }
            assert_eq!(log.lines_with(&["WARN", "thawed", node.volume.as_str()]).len(), 1);
            drop(log);
            node.staged(fs).await;
            can_be_written(&node, "staging").await;
            node.unstage().await.unwrap();
        }
    });
}

/// The driver looks for a frozen file system on the disk. If the disk is held for another reason, the driver neither
/// mounts nor changes it.
#[test]
fn held_disk_without_a_live_file_system_is_not_mounted() {
    with_staged_node(async |node| {
        node.unstage().await.unwrap();
        let before = node.disk.fingerprint().unwrap();
        let holder = crate::release::exclusively(node).await;
        let process = format!("process {}", std::process::id());
        refused(node.unstage().await, Code::FailedPrecondition, &["held", &process]);
        drop(holder);
        assert_eq!(node.disk.fingerprint().unwrap(), before);
        node.unstage().await.unwrap();
    });
}

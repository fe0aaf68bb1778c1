//! A file system that somebody froze, as backup hooks do, and did not thaw: the freeze alone keeps it alive, without any
//! mount, and whoever mounts it next would hang with his first write.

use std::path::{Path, PathBuf};
use std::time::Duration;

use csi_proto::csi;
use ebs_mounter::{Mounter, MounterConfig};
use ebs_testkit::mount_namespace::{in_mount_namespace, unmount};
use ebs_testkit::process::{run_tool, tool};
use ebs_testkit::replaced_tool::ReplacedTool;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount as unmount_now};
use tonic::Code;

use crate::log::Log;
use crate::node::{self, MIB, Node, refused, with_staged_node};

const FSFREEZE: &str = "/usr/sbin/fsfreeze";
const BOUND: Duration = Duration::from_secs(60);

async fn freeze(at: &Path) -> Result<String, Box<dyn std::error::Error>> {
    Ok(tool(FSFREEZE, &["--freeze", at.to_str().unwrap()], BOUND).await?)
}

/// Thaws a node's file system at the end of a test, also of one that fails: what waits for it, even the removal of the test's
/// directory, could not be ended otherwise.
pub(crate) struct Thawed {
    device: PathBuf,
    place: tempfile::TempDir,
}

impl Thawed {
    fn of(node: &Node) -> Self {
        Self { device: node.disk.path().to_owned(), place: tempfile::tempdir().unwrap() }
    }

    /// Freezes what is mounted at one of the node's paths.
    pub(crate) async fn after(node: &Node, at: &str) -> Self {
        let thawed = Self::of(node);
        freeze(&node.path(at)).await.expect("a frozen file system");
        thawed
    }
}

impl Drop for Thawed {
    fn drop(&mut self) {
        // A further mount is of the file system that is alive, wherever that is mounted.
        let place = self.place.path();
        if mount(&self.device, place, "ext4", MountFlags::empty(), None).is_ok()
            || mount(&self.device, place, "xfs", MountFlags::empty(), None).is_ok()
        {
            let _was_not_frozen = run_tool(FSFREEZE, &["--unfreeze", place.to_str().unwrap()], BOUND);
            unmount_now(place, UnmountFlags::DETACH).expect("unmounted");
        }
    }
}

/// A write that has to come back. It runs in a process of its own, since one that does not cannot be ended.
async fn can_be_written(node: &Node, at: &str) {
    let file = node.text(&format!("{at}/written"));
    tool("/usr/bin/touch", &[&file], BOUND).await.expect("a write that comes back");
}

#[test]
fn a_frozen_file_system_is_thawed_when_it_is_unstaged() {
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

/// A pod's hook freezes the volume while the pod runs: that is not ours to end, whoever else stops to use the volume.
#[test]
fn an_unpublish_leaves_a_file_system_frozen_that_is_still_staged() {
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

/// The program that froze the volume went with its pod: the next pod that writes must not hang with its first write.
#[test]
fn a_publish_to_write_thaws_a_volume_that_no_pod_uses() {
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
            // While a pod has the volume, the freeze may be a backup that is under way.
            node.publish(publish("other", false)).await.unwrap();
            freeze(&node.path("staging")).await.expect_err("it is frozen still");
            for target in ["target", "other"] {
                node.unpublish(node.text(target)).await.unwrap();
            }
            // A reader does not hang.
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

/// An xfs_growfs that freezes the file system at the staging path, as a hook may do in this moment, and then does its work.
fn growfs_that_meets_a_freeze(node: &Node) -> ReplacedTool {
    let (copy, staging) = (node.text("xfs_growfs"), node.text("staging"));
    std::fs::copy("/usr/sbin/xfs_growfs", &copy).unwrap();
    let script = format!("{FSFREEZE} --freeze {staging}\nexec {copy} \"$@\"");
    ReplacedTool::by_script("xfs_growfs", &script).unwrap()
}

/// xfs_growfs waits in the kernel for the thaw, and keeps its operation and the mount that it works on. Only the unstage ends the
/// freeze, and no unpublish or unstage may wait for the tool before that.
#[test]
fn a_growth_that_a_freeze_stops_does_not_stop_unstage() {
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
            // Its client leaves while the tool hangs.
            tokio::select! {
                () = growth_hangs(&node) => {}
                outcome = node.expand(node.text("target")), if !grows_at_stage => panic!("{outcome:?}"),
                outcome = node.stage(node.stage_request("xfs", &[])), if grows_at_stage => panic!("{outcome:?}"),
            }
            if !grows_at_stage {
                // The freeze may be a backup of the pod that still runs.
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

/// No tool is started that would hang. A pod has the volume, so that nothing may thaw it and a stage that hangs would keep the
/// unpublish out for ever.
#[test]
fn a_growth_of_a_frozen_file_system_comes_back() {
    in_mount_namespace(|| async {
        let node = Node::new(320 * MIB);
        node.staged("xfs").await;
        node.publish(node.publish_request(node::mount("xfs", &[]))).await.unwrap();
        node.disk.grow(640 * MIB).unwrap();
        let _thawed = Thawed::after(&node, "target").await;
        let expanded = tokio::time::timeout(2 * BOUND, node.expand(node.text("target"))).await;
        refused(expanded.expect("an expansion that comes back"), Code::Unavailable, &["frozen"]);
        let staged = tokio::time::timeout(2 * BOUND, node.stage(node.stage_request("xfs", &[]))).await;
        staged.expect("a stage that comes back").unwrap();
        freeze(&node.path("target")).await.expect_err("it is frozen still");
        node.unpublish(node.text("target")).await.unwrap();
        node.unstage().await.unwrap();
    });
}

/// The try whether a file system can be written hangs while that is frozen. It must not keep unstage from the thaw.
#[test]
fn a_try_to_write_that_a_freeze_stops_does_not_stop_unstage() {
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

/// What an earlier version left, or a hook that froze the file system in the moment of the unmount.
#[test]
fn a_frozen_file_system_that_is_mounted_nowhere_is_thawed() {
    in_mount_namespace(|| async {
        for fs in ["ext4", "xfs"] {
            let node = Node::new(320 * MIB);
            node.staged(fs).await;
            let _thawed = Thawed::after(&node, "staging").await;
            unmount(node.path("staging")).await;
            let log = Log::listen();
            node.unstage().await.unwrap();
            assert_eq!(log.lines_with(&["WARN", "thawed", node.volume.as_str()]).len(), 1);
            drop(log);
            node.staged(fs).await;
            can_be_written(&node, "staging").await;
            node.unstage().await.unwrap();
        }
    });
}

#[test]
fn a_file_system_that_a_stage_finds_frozen_is_thawed() {
    with_staged_node(async |node| {
        let _thawed = Thawed::after(node, "staging").await;
        unmount(node.path("staging")).await;
        let log = Log::listen();
        node.staged("ext4").await;
        assert_eq!(log.lines_with(&["WARN", "thawed", node.volume.as_str()]).len(), 1);
        drop(log);
        can_be_written(node, "staging").await;
        node.unstage().await.unwrap();
    });
}

/// A disk that somebody holds in another way is neither mounted nor written to in the search for a frozen file system.
#[test]
fn a_held_disk_without_a_living_file_system_is_not_mounted() {
    with_staged_node(async |node| {
        node.unstage().await.unwrap();
        let before = node.disk.fingerprint().unwrap();
        let holder = crate::release::exclusively(node).unwrap();
        refused(node.unstage().await, Code::FailedPrecondition, &["held"]);
        drop(holder);
        assert_eq!(node.disk.fingerprint().unwrap(), before);
        node.unstage().await.unwrap();
    });
}

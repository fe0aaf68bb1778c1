//! Tests concurrent calls for one volume. No other operation runs at the same time as NodeStageVolume or
//! NodeUnstageVolume. NodeUnstageVolume and NodeUnpublishVolume take over from an operation that no caller is waiting
//! for.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use ebs_mounter::MounterConfig;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::time::Instant;

use crate::prelude::*;

const BOUND: Duration = Duration::from_secs(60);
const O_NONBLOCK: i32 = 0o4000;

/// An mkfs that waits for the test and then fails.
struct WaitingMkfs {
    _replaced: ReplacedTool,
    go: PathBuf,
}

impl WaitingMkfs {
    fn new(node: &Node) -> Self {
        let go = node.path("go");
        mknodat(CWD, &go, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let script = format!("timeout 300 /bin/sh -c 'read line' < {}; exit 1", go.display());
        Self { _replaced: ReplacedTool::by_script("mke2fs", &script).unwrap(), go }
    }

    /// Waits until mkfs runs, and returns the pipe that lets it continue.
    async fn waits(&self) -> std::fs::File {
        let deadline = Instant::now() + BOUND;
        loop {
            // The pipe cannot be opened for writing until mkfs reads from it.
            if let Ok(go) = std::fs::File::options().write(true).custom_flags(O_NONBLOCK).open(&self.go) {
                return go;
            }
            assert!(Instant::now() < deadline, "no mkfs runs");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[test]
fn stage_excludes_all_other_calls_for_the_volume() {
    with_node(async |node| {
        let mkfs = WaitingMkfs::new(node);
        let stage = node.stage(node.stage_request("ext4", &[]));
        let others = async {
            let mut go = mkfs.waits().await;
            let same = node.stage(node.stage_request("ext4", &["noatime"])).await;
            refused(same, Code::Aborted, &[node.volume.as_str()]);
            refused(node.publish(node.publish_request(mount("ext4", &[]))).await, Code::Aborted, &[]);
            refused(node.publish(node.publish_request(block())).await, Code::Aborted, &[]);
            refused(node.expand(node.text("staging")).await, Code::Aborted, &[]);
            refused(node.unstage().await, Code::Aborted, &[]);
            go.write_all(b"go\n").unwrap();
        };
        let (staged, ()) = tokio::join!(stage, others);
        refused(staged, Code::Internal, &["mke2fs failed"]);
    });
}

/// NodeUnstageVolume waits for mkfs and then unstages in the same call.
#[test]
fn unstage_takes_over_from_an_abandoned_stage() {
    with_node(async |node| {
        let mkfs = WaitingMkfs::new(node);
        let mut go = tokio::select! {
            staged = node.stage(node.stage_request("ext4", &[])) => panic!("{staged:?}"),
            go = mkfs.waits() => go,
        };
        let unstage = node.unstage();
        tokio::pin!(unstage);
        tokio::select! {
            biased;
            outcome = &mut unstage => panic!("it runs beside the stage: {outcome:?}"),
            () = std::future::ready(()) => {}
        }
        go.write_all(b"go\n").unwrap();
        unstage.await.unwrap();
    });
}

/// NodePublishVolume waits for a late disk. NodeUnpublishVolume continues when the disk appears.
#[test]
fn unpublish_takes_over_from_an_abandoned_publish() {
    in_mount_namespace(|| async {
        let node = Node::new(MIB);
        node.disk.vanish().await.unwrap();
        let operations = Operations::new();
        let late = |config: &mut MounterConfig| config.late_device = Duration::from_secs(600);
        let calls = node.again_as((options(), operations.clone()), late);
        tokio::select! {
            biased;
            outcome = calls.publish(node.publish_request(block())) => panic!("{outcome:?}"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(operations.running().len(), 1, "the publish looks for its disk");
        let unpublish = calls.unpublish(node.text("target"));
        tokio::pin!(unpublish);
        tokio::select! {
            biased;
            outcome = &mut unpublish => panic!("it runs beside the publish: {outcome:?}"),
            () = std::future::ready(()) => {}
        }
        let backing = node.disk.backing_file().to_str().unwrap();
        let device = run_tool("/usr/sbin/losetup", &["--find", "--show", backing], BOUND).unwrap();
        let ended = tokio::time::timeout(BOUND, unpublish).await;
        run_tool("/usr/sbin/losetup", &["--detach", device.trim()], BOUND).unwrap();
        ended.expect("the publish ends with its disk").unwrap();
        assert!(!node.path("target").exists());
    });
}

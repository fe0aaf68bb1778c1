//! Tests that the driver tolerates faults of its state directory: it still stages, publishes and unstages volumes, and
//! answers every call. Only a format requires the directory, because its record must outlive the driver.

use std::future::Future;
use std::path::Path;

use ebs_mounter::{Mounter, MounterConfig};
use rustix::mount::MountFlags;

use crate::format::interrupt;
use crate::frozen::Thawed;
use crate::prelude::*;

/// A call that takes longer counts as hanging.
const BOUND: Duration = Duration::from_secs(90);

async fn in_time<T>(what: &str, answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, answer).await.unwrap_or_else(|_| panic!("{what} gave no answer"))
}

/// Mounts a new tmpfs over a directory.
fn tmpfs(at: &Path, flags: MountFlags) {
    std::fs::create_dir_all(at).unwrap();
    rustix::mount::mount("none", at, "tmpfs", flags, Some(c"size=64k")).unwrap();
}

/// Fills a file system to its last byte.
fn fill(at: &Path) {
    let full = std::fs::write(at.join("filler"), vec![1; 1 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
}

/// Stages, publishes and unstages a volume that has a file system.
async fn lives(node: &Node, calls: &Calls) {
    in_time("stage", calls.stage(node.stage_request("ext4", &[]))).await.unwrap();
    in_time("publish", calls.publish(node.publish_request(mount("ext4", &[])))).await.unwrap();
    in_time("the look at the volumes", calls.service.check_volumes()).await;
    in_time("unpublish", calls.unpublish(node.text("target"))).await.unwrap();
    in_time("unstage", calls.unstage()).await.unwrap();
}

/// Returns a service with another state directory and another boot ID.
fn over(node: &Node, state: &Path) -> Calls {
    std::fs::write(node.path("boot_id"), "another\n").unwrap();
    node.again(|config| (config.state_dir, config.boot_id) = (state.to_owned(), node.path("boot_id")))
}

#[test]
fn node_with_a_hanging_state_directory_answers_every_call() {
    in_mount_namespace(|| async {
        let (store, node) = (Node::new(64 * MIB), Node::new(64 * MIB));
        store.staged("ext4").await;
        node.staged("ext4").await;
        let calls = node.again(|config| config.state_dir = store.path("staging/state"));
        let hung = Thawed::after(&store, "staging").await;
        let service = &calls.service;
        let capabilities = service.node_get_capabilities(Request::new(csi::NodeGetCapabilitiesRequest {}));
        in_time("NodeGetCapabilities", capabilities).await.unwrap();
        in_time("NodeGetInfo", service.node_get_info(Request::new(csi::NodeGetInfoRequest {}))).await.unwrap();
        lives(&node, &calls).await;
        drop(hung);
    });
}

#[test]
fn node_starts_while_its_state_directory_hangs() {
    in_mount_namespace(|| async {
        let (store, node) = (Node::new(64 * MIB), Node::new(64 * MIB));
        store.staged("ext4").await;
        let config = MounterConfig {
            simulated_devices: Some(node.disk.directory().to_owned()),
            ..MounterConfig::new(store.path("staging/state"))
        };
        let hung = Thawed::after(&store, "staging").await;
        let start = tokio::task::spawn_blocking(move || Mounter::new(config).map(drop));
        let started = tokio::time::timeout(BOUND, start).await;
        drop(hung);
        started.expect("the start hangs").unwrap().unwrap();
    });
}

#[test]
fn node_with_a_full_or_read_only_state_directory_serves() {
    with_staged_node(async |node| {
        node.unstage().await.unwrap();
        for flags in [MountFlags::empty(), MountFlags::RDONLY] {
            let state = node.path(&format!("state-{flags:?}"));
            tmpfs(&state, flags);
            if flags.is_empty() {
                fill(&state);
            }
            lives(node, &over(node, &state)).await;
        }
    });
}

#[test]
fn node_with_a_corrupt_register_reads_its_valid_entries() {
    with_staged_node(async |node| {
        node.unstage().await.unwrap();
        let state = node.path("corrupt");
        let volumes = state.join("volumes");
        std::fs::create_dir_all(volumes.join("vol-0123456789abcdef0")).unwrap();
        std::fs::write(volumes.join("vol-0123456789abcdef1"), [0xff; 16]).unwrap();
        std::fs::create_dir_all(state.join("volumes-at-boot")).unwrap();
        lives(node, &over(node, &state)).await;
        let elsewhere = node.path("no-directory");
        std::fs::create_dir_all(&elsewhere).unwrap();
        std::fs::write(elsewhere.join("volumes"), "a file").unwrap();
        lives(node, &over(node, &elsewhere)).await;
    });
}

/// The record of an interrupted format does not block NodeUnstageVolume. The record stays on disk, but does not permit
/// a later format.
#[test]
fn unstage_succeeds_when_a_record_cannot_be_removed() {
    with_node(async |node| {
        let state = node.path("state");
        tmpfs(&state, MountFlags::empty());
        interrupt(node).await;
        rustix::mount::mount_remount(&state, MountFlags::RDONLY, "").unwrap();
        let calls = Calls { awaits_register: false, ..node.calls.clone() };
        for _ in 0..2 {
            in_time("unstage", calls.unstage()).await.unwrap();
        }
        let record = state.join(format!("format-{}", node.volume));
        assert!(record.exists());
        rustix::mount::mount_remount(&state, MountFlags::empty(), "").unwrap();
        node.disk.write_at(b"precious", 40_960).unwrap();
        refused(node.stage(node.stage_request("ext4", &[])).await, Code::FailedPrecondition, &["not blank"]);
    });
}

#[test]
fn unstage_succeeds_when_the_removal_of_a_record_hangs() {
    in_mount_namespace(|| async {
        let store = Node::new(64 * MIB);
        store.staged("ext4").await;
        let state = store.path("staging/state");
        let node = Node::with(64 * MIB, |config| config.state_dir = state.clone());
        let replaced = ReplacedTool::by_script("mke2fs", "kill -9 $$").unwrap();
        let stage = node.stage(node.stage_request("ext4", &[])).await;
        refused(stage, Code::Internal, &["mke2fs", "signal 9"]);
        drop(replaced);
        assert!(state.join(format!("format-{}", node.volume)).exists());
        let hung = Thawed::after(&store, "staging").await;
        let calls = Calls { awaits_register: false, ..node.calls.clone() };
        in_time("unstage", calls.unstage()).await.unwrap();
        drop(hung);
    });
}

/// Without its record, an interrupted format would look like user data.
#[test]
fn nothing_is_formatted_without_a_durable_record() {
    with_node(async |node| {
        let state = node.path("full");
        tmpfs(&state, MountFlags::empty());
        fill(&state);
        let read_only = node.path("read-only");
        tmpfs(&read_only, MountFlags::RDONLY);
        for state in [state, read_only] {
            let calls = over(node, &state);
            let outcome = calls.stage(node.stage_request("ext4", &[])).await;
            refused(outcome, Code::Internal, &["record", state.to_str().unwrap()]);
            assert!(node.is_untouched());
            // A raw device needs no record.
            calls.publish(node.publish_request(block())).await.unwrap();
            node.unpublish(node.text("target")).await.unwrap();
        }
    });
}

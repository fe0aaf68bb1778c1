//! Tests damaged file systems: what NodeStageVolume repairs and what it refuses.

use std::path::PathBuf;

use csi_proto::csi::VolumeHealthErrorType;
use ebs_testkit::ext_damage::{Damage, debugfs, forget_journal_blocks, record_journal_error, set_error_state, state};
use rustix::mount::MountFlags;
use tonic::Status;

use crate::prelude::*;
use crate::release::another_namespace;

const CLEAN: u16 = 1;
const BOUND: Duration = Duration::from_secs(60);

/// Returns a node with an ext4 volume that was staged, written and unstaged, and the hash of its file `kept`.
async fn used_node() -> (Node, String) {
    let node = Node::new(64 * MIB);
    node.staged("ext4").await;
    let kept = content::write_file(&node.path("staging/kept"), 23, MIB).unwrap();
    node.unstage().await.unwrap();
    (node, kept)
}

fn with_used_node(test: impl AsyncFnOnce(&Node, String) + Send + 'static) {
    in_mount_namespace(move || async move {
        let (node, kept) = used_node().await;
        test(&node, kept).await;
    });
}

/// Makes the kernel record an error of the mounted file system, as damage would, and waits for the record.
pub(crate) async fn trigger_error(node: &Node) {
    let attribute = |name: &str| PathBuf::from(format!("/sys/fs/ext4/{}/{name}", node.disk.name()));
    std::fs::write(attribute("trigger_fs_error"), "test").unwrap();
    let recorded = async {
        while std::fs::read_to_string(attribute("errors_count")).unwrap().trim() == "0" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(BOUND, recorded).await.expect("a recorded error");
}

async fn publish_at(node: &Node, target: &str, readonly: bool) -> Result<(), Status> {
    let mut request = node.publish_request(mount("ext4", &[]));
    request.target_path = node.text(target);
    request.readonly = readonly;
    node.publish(request).await
}

/// e2fsck repairs the damage automatically, and no data is lost.
#[test]
fn damage_that_the_kernel_rejects_is_repaired_at_stage() {
    in_mount_namespace(|| async {
        for damage in [Damage::GroupChecksum, Damage::JournalChecksum, Damage::RootChecksum] {
            let (node, kept) = used_node().await;
            damage.inflict(&node.disk).unwrap();
            assert_eq!(state(&node.disk).unwrap(), CLEAN, "the superblock does not show the damage");
            let stage = node.stage(node.stage_request("ext4", &[])).await;
            stage.unwrap_or_else(|status| panic!("{damage:?}: {}", status.message()));
            assert_eq!(content::hash_file(&node.path("staging/kept")).unwrap(), kept, "{damage:?}");
            std::fs::write(node.path("staging/new"), "x").unwrap();
        }
    });
}

/// NodeStageVolume does not change the disk.
#[test]
fn stage_refuses_damage_beyond_automatic_repair() {
    in_mount_namespace(|| async {
        for is_recorded in [true, false] {
            let (node, _) = used_node().await;
            Damage::RootIsAFile.inflict(&node.disk).unwrap();
            if is_recorded {
                set_error_state(&node.disk).unwrap();
            }
            let stage = node.stage(node.stage_request("ext4", &[])).await;
            refused(stage, Code::FailedPrecondition, &["need a manual repair", node.volume.as_str()]);
            assert!(node.mounts_at("staging").await.is_empty());
            // A check that answers every question with "yes" would create a new root directory.
            let root = debugfs(&node.disk, "stat <2>").unwrap();
            assert!(root.contains("Type: regular"), "{root}");
        }
    });
}

/// The error explains how to repair the file system.
#[test]
fn read_only_stage_repairs_nothing() {
    with_used_node(async |node, _| {
        Damage::RootChecksum.inflict(&node.disk).unwrap();
        let e2fsck = TracedTools::that_works(node, "e2fsck");
        let stage = node.stage(node.stage_request("ext4", &["ro"])).await;
        refused(stage, Code::FailedPrecondition, &["damaged", "without the mount option ro"]);
        assert_eq!(e2fsck.started().len(), 0);
        node.staged("ext4").await;
    });
}

/// The driver checks the file system before a pod gets the volume, wherever its journal is.
#[test]
fn file_system_with_an_error_only_in_its_journal_is_checked() {
    in_mount_namespace(|| async {
        for knows_journal_blocks in [true, false] {
            let (node, kept) = used_node().await;
            if !knows_journal_blocks {
                forget_journal_blocks(&node.disk).unwrap();
            }
            record_journal_error(&node.disk).unwrap();
            assert_eq!(state(&node.disk).unwrap(), CLEAN, "the superblock does not show the error");
            let (e2fsck, log) = (TracedTools::that_works(&node, "e2fsck"), Log::listen());
            node.staged("ext4").await;
            assert_eq!((e2fsck.started().len(), state(&node.disk).unwrap()), (1, CLEAN), "{knows_journal_blocks}");
            // If the superblock shows where the journal is, the driver runs e2fsck before the first mount.
            let mounted_before = log.lines_with(&["WARN", "mounting the file system revealed errors"]).len();
            assert_eq!(mounted_before, usize::from(!knows_journal_blocks));
            drop(log);
            assert_eq!(node.health(node.text("staging")).await.unwrap(), []);
            assert_eq!(content::hash_file(&node.path("staging/kept")).unwrap(), kept);
            // The error is now repaired, so a second NodeStageVolume call checks nothing.
            node.staged("ext4").await;
            node.unstage().await.unwrap();
            node.staged("ext4").await;
            assert_eq!(e2fsck.started().len(), 1);
        }
    });
}

/// A repeated NodeStageVolume call checks the unused volume.
#[test]
fn health_reports_an_error_in_the_superblock() {
    with_used_node(async |node, kept| {
        record_journal_error(&node.disk).unwrap();
        // Mount the volume like the reference driver, which does not read the journal.
        std::fs::create_dir(node.path("staging")).unwrap();
        rustix::mount::mount(node.disk.path(), node.path("staging"), "ext4", MountFlags::empty(), None).unwrap();
        let health = node.health(node.text("staging")).await.unwrap();
        let found: Vec<_> = health.iter().map(|entry| (entry.status(), entry.reason.as_str())).collect();
        assert_eq!(found, [(VolumeHealthErrorType::Degraded, "FileSystemErrors")]);
        node.staged("ext4").await;
        assert_eq!(node.health(node.text("staging")).await.unwrap(), []);
        assert_eq!((node.mounts_at("staging").await.len(), state(&node.disk).unwrap()), (1, CLEAN));
        assert_eq!(content::hash_file(&node.path("staging/kept")).unwrap(), kept);
    });
}

/// Errors never cause an unmount of a volume in use. A repeated NodeStageVolume call checks an unused volume.
#[test]
fn errors_of_a_writable_file_system_do_not_block_pods() {
    with_used_node(async |node, kept| {
        node.staged("ext4").await;
        publish_at(node, "target", false).await.unwrap();
        trigger_error(node).await;
        let before = node.mounts_at("staging").await;
        node.staged("ext4").await;
        assert_eq!(node.mounts_at("staging").await, before);
        publish_at(node, "other", false).await.unwrap();
        std::fs::write(node.path("other/new"), "x").unwrap();
        for target in ["target", "other"] {
            node.unpublish(node.text(target)).await.unwrap();
        }
        node.staged("ext4").await;
        assert_eq!(node.health(node.text("staging")).await.unwrap(), []);
        assert_eq!(content::hash_file(&node.path("staging/kept")).unwrap(), kept);
    });
}

/// A process in another mount namespace prevents the check, but not the use of the volume.
#[test]
fn file_system_with_errors_is_mounted_unchecked_while_held() {
    with_used_node(async |node, kept| {
        node.staged("ext4").await;
        publish_at(node, "target", false).await.unwrap();
        trigger_error(node).await;
        node.unpublish(node.text("target")).await.unwrap();
        let mut holder = another_namespace(node, Some("staging/kept")).await;
        for _ in 0..2 {
            node.staged("ext4").await;
            assert_eq!(node.mounts_at("staging").await.len(), 1);
        }
        assert_eq!(reasons(node).await, ["FileSystemErrors"]);
        publish_at(node, "target", false).await.unwrap();
        std::fs::write(node.path("target/new"), "x").unwrap();
        node.unpublish(node.text("target")).await.unwrap();
        holder.kill().unwrap();
        node.staged("ext4").await;
        assert_eq!(reasons(node).await, [""; 0]);
        assert_eq!(content::hash_file(&node.path("staging/kept")).unwrap(), kept);
    });
}

/// Returns the reasons in the health of the staged volume.
async fn reasons(node: &Node) -> Vec<String> {
    let health = node.health(node.text("staging")).await.unwrap();
    health.into_iter().map(|entry| entry.reason).collect()
}

/// A check that cannot run does not prove damage, so the kernel decides whether it mounts the file system.
#[test]
fn file_system_that_e2fsck_cannot_check_is_staged() {
    with_used_node(async |node, kept| {
        node.staged("ext4").await;
        trigger_error(node).await;
        node.unstage().await.unwrap();
        let (replaced, log) = (ReplacedTool::by_script("e2fsck", "exit 8").unwrap(), Log::listen());
        node.staged("ext4").await;
        assert_eq!(log.lines_with(&["WARN", "check could not run", node.volume.as_str()]).len(), 1);
        assert_eq!(reasons(node).await, ["FileSystemErrors"]);
        // A repeated call tries the check again. The volume stays usable.
        node.staged("ext4").await;
        assert_eq!(node.mounts_at("staging").await.len(), 1);
        drop((replaced, log));
        node.staged("ext4").await;
        assert_eq!(reasons(node).await, [""; 0]);
        assert_eq!(content::hash_file(&node.path("staging/kept")).unwrap(), kept);
    });
}

/// If a signal ends e2fsck in the middle of a repair, the driver does not mount the file system before a complete
/// check.
#[test]
fn file_system_with_a_half_done_repair_is_not_mounted() {
    in_mount_namespace(|| async {
        for ending in ["kill -9 $$", "kill -SEGV $$"] {
            let (node, kept) = used_node().await;
            node.staged("ext4").await;
            trigger_error(&node).await;
            let replaced = ReplacedTool::by_script("e2fsck", ending).unwrap();
            // The first call finds the volume staged and unused. The second call finds it not mounted.
            for _ in 0..2 {
                let staged = node.stage(node.stage_request("ext4", &[])).await;
                refused(staged, Code::Internal, &["interrupted"]);
                assert!(node.mounts_at("staging").await.is_empty(), "{ending}");
            }
            drop(replaced);
            node.staged("ext4").await;
            assert_eq!(reasons(&node).await, [""; 0]);
            assert_eq!(content::hash_file(&node.path("staging/kept")).unwrap(), kept);
        }
    });
}

/// resize2fs sets the file system's error state while it works. Unlike after damage, the kernel has then counted no
/// errors.
#[test]
fn possibly_half_grown_file_system_is_not_mounted_unchecked() {
    with_used_node(async |node, _| {
        set_error_state(&node.disk).unwrap();
        let replaced = ReplacedTool::by_script("e2fsck", "exit 8").unwrap();
        refused(node.stage(node.stage_request("ext4", &[])).await, Code::Internal, &["check the file system: "]);
        assert!(node.mounts_at("staging").await.is_empty());
        drop(replaced);
        node.staged("ext4").await;
    });
}

/// A root directory that accepts no new files (`chattr +i`) does not indicate a damaged file system.
#[test]
fn immutable_root_directory_does_not_block_pods() {
    with_used_node(async |node, _| {
        node.staged("ext4").await;
        trigger_error(node).await;
        run_tool("/usr/bin/chattr", &["+i", &node.text("staging")], BOUND).unwrap();
        let published = publish_at(node, "target", false).await;
        run_tool("/usr/bin/chattr", &["-i", &node.text("staging")], BOUND).unwrap();
        published.unwrap();
    });
}

/// The file system turned read-only after errors. While another pod uses it, NodeStageVolume and NodePublishVolume
/// refuse requests for writing. Afterwards, the next NodeStageVolume call checks the file system and mounts it again.
#[test]
fn pod_that_writes_never_gets_a_read_only_file_system() {
    with_used_node(async |node, kept| {
        let stage = || node.stage(node.stage_request("ext4", &["errors=remount-ro"]));
        stage().await.unwrap();
        publish_at(node, "target", false).await.unwrap();
        trigger_error(node).await;
        let next_step = "end the pods that use the volume on this node";
        refused(publish_at(node, "other", false).await, Code::FailedPrecondition, &["read-only", next_step]);
        assert!(!node.path("other").exists());
        // The driver publishes the volume to another pod that only reads, and the first pod keeps it.
        publish_at(node, "other", true).await.unwrap();
        node.unpublish(node.text("other")).await.unwrap();
        publish_at(node, "target", false).await.unwrap();
        let in_use = stage().await.unwrap_err();
        assert!(["read-only", &node.text("target")].iter().all(|word| in_use.message().contains(word)), "{in_use:?}");
        assert_eq!(node.mounts_at("staging").await.len(), 1);
        node.unpublish(node.text("target")).await.unwrap();
        // Only NodeStageVolume repairs the file system.
        refused(publish_at(node, "target", false).await, Code::FailedPrecondition, &["read-only"]);
        stage().await.unwrap();
        publish_at(node, "target", false).await.unwrap();
        std::fs::write(node.path("target/new"), "x").unwrap();
        assert_eq!(content::hash_file(&node.path("target/kept")).unwrap(), kept);
        assert_eq!(node.mounts_at("staging").await.len(), 1);
    });
}

/// The file system turned read-only, but the request needs only a read-only mount.
#[test]
fn read_only_stage_accepts_a_file_system_turned_read_only() {
    with_used_node(async |node, _| {
        let stage = || node.stage(node.stage_request("ext4", &["ro"]));
        stage().await.unwrap();
        let before = node.mounts_at("staging").await;
        trigger_error(node).await;
        stage().await.unwrap();
        assert_eq!(node.mounts_at("staging").await, before);
    });
}

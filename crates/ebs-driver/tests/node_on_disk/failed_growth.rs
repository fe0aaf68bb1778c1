//! Tests file systems that cannot grow to the size of their disks. Their volumes are usable at the current size, and
//! the driver reports the problem.

use std::path::Path;

use rustix::thread::CapabilitySet;

use crate::prelude::*;

const SIZE: u64 = 320 * MIB;
const TIB: u64 = 1 << 40;
const BOUND: Duration = Duration::from_secs(300);

/// Drops CAP_SYS_RESOURCE, without which a process cannot grow a mounted ext file system, for this thread and the
/// threads that it starts.
pub(crate) fn give_up_growth_of_mounted_ext() {
    let mut sets = rustix::thread::capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::SYS_RESOURCE);
    rustix::thread::set_capabilities(None, sets).unwrap();
}

fn total(path: &Path) -> u64 {
    let found = rustix::fs::statvfs(path).unwrap();
    found.f_blocks * found.f_frsize
}

/// Returns the reasons in the response of NodeGetVolumeHealth.
async fn health(node: &Node) -> Vec<String> {
    node.health(node.text("staging")).await.unwrap().into_iter().map(|entry| entry.reason).collect()
}

/// Returns a node with an unstaged volume whose file system contains the file `kept` and is smaller than its disk.
async fn grown_while_unstaged(fs_type: &str, parameters: &[(&str, &str)]) -> Node {
    let node = Node::new(SIZE);
    node.stage(stage_request(&node, fs_type, parameters)).await.unwrap();
    std::fs::write(node.path("staging/file"), "kept").unwrap();
    node.unstage().await.unwrap();
    node.disk.grow(2 * SIZE).unwrap();
    node
}

fn stage_request(node: &Node, fs_type: &str, parameters: &[(&str, &str)]) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest { volume_context: context(parameters), ..node.stage_request(fs_type, &[]) }
}

/// The pod gets its data at the old size. The log, the volume's health and NodeExpandVolume report the failure.
#[test]
fn failed_file_system_growth_does_not_fail_staging() {
    in_mount_namespace(|| async {
        give_up_growth_of_mounted_ext();
        for (fs_type, tool, expanded) in
            [("xfs", "xfs_growfs", "broken on purpose"), ("ext4", "resize2fs", "CAP_SYS_RESOURCE")]
        {
            for script in ["echo broken on purpose >&2; exit 1", "kill -9 $$", "exit 0"] {
                let node = grown_while_unstaged(fs_type, &[]).await;
                let (log, tools) = (Log::listen(), TracedTools::new(&node, &[(tool, script)]));
                for _ in 0..2 {
                    node.staged(fs_type).await;
                    assert_eq!(std::fs::read_to_string(node.path("staging/file")).unwrap(), "kept", "{fs_type}");
                }
                assert!(!tools.started().is_empty(), "{fs_type}: no growth was tried");
                let sizes = [SIZE.to_string(), (2 * SIZE).to_string()];
                let warned = log.lines_with(&["WARN", "grow", node.volume.as_str(), &sizes[0], &sizes[1]]);
                assert!(!warned.is_empty(), "{fs_type}: no warning");
                assert_eq!(health(&node).await, ["NotGrown"], "{fs_type}");
                let status = node.expand(node.text("staging")).await.unwrap_err();
                // This is the only error code after which the kubelet still starts the pod.
                assert_eq!(status.code(), Code::FailedPrecondition, "{}", status.message());
                if script.starts_with("echo") {
                    assert!(status.message().contains(expanded), "{}", status.message());
                }
                if script == "exit 0" {
                    let health = node.health(node.text("staging")).await.unwrap();
                    let words = [tool, "reported success", &sizes[0], &sizes[1]];
                    assert!(words.iter().all(|word| health[0].message.contains(word)), "{health:?}");
                }
                drop((tools, log));
                node.unstage().await.unwrap();
                node.staged(fs_type).await;
                assert!(total(&node.path("staging")) > SIZE + SIZE / 2, "{fs_type} has not grown");
                assert_eq!(health(&node).await, [] as [&str; 0], "{fs_type}");
                node.unstage().await.unwrap();
            }
        }
    });
}

/// resize2fs refuses to grow an unmounted file system with clusters, so the driver does not call it.
#[test]
fn ext4_with_clusters_is_staged_at_its_present_size() {
    in_mount_namespace(|| async {
        give_up_growth_of_mounted_ext();
        let parameters = [("ext4bigalloc", "true"), ("ext4clustersize", "16384")];
        let node = grown_while_unstaged("ext4", &parameters).await;
        let tools = TracedTools::that_fail(&node);
        node.stage(stage_request(&node, "ext4", &parameters)).await.unwrap();
        assert_eq!(tools.started(), [] as [&str; 0]);
        assert_eq!(std::fs::read_to_string(node.path("staging/file")).unwrap(), "kept");
        assert_eq!(health(&node).await, ["NotGrown"]);
        let said = refused(
            node.expand(node.text("staging")).await,
            Code::FailedPrecondition,
            &["CAP_SYS_RESOURCE", "bigalloc"],
        );
        assert!(!said.contains("unstage"), "only the capability helps: {said}");
    });
}

/// A file system without 64-bit block numbers has at most 2^32 - 1 blocks. The driver does not run a tool to grow it
/// further.
#[test]
fn file_system_at_its_block_limit_is_staged() {
    in_mount_namespace(|| async {
        // With blocks of 2 KiB, 2^32 - 1 blocks are 8 TiB. With 4 KiB they would be 16 TiB, more than the maximum file
        // size on ext4. The `bigalloc` clusters let mkfs create only a few groups.
        let node = Node::new(9 * TIB);
        let device = node.disk.path().to_str().unwrap().to_owned();
        let options =
            ["-q", "-t", "ext4", "-b", "2048", "-C", "1048576", "-O", "bigalloc,^64bit", "-E", "nodiscard", "-F"];
        let args: Vec<&str> = options.into_iter().chain([device.as_str(), "4294967295"]).collect();
        run_tool("/usr/sbin/mke2fs", &args, BOUND).unwrap();
        let tools = TracedTools::that_fail(&node);
        node.staged("ext4").await;
        assert_eq!(tools.started(), [] as [&str; 0]);
        std::fs::write(node.path("staging/file"), "usable").unwrap();
        assert_eq!(health(&node).await, ["NotGrown"]);
        let words = ["64bit", "8796091973632"];
        refused(node.expand(node.text("staging")).await, Code::FailedPrecondition, &words);
    });
}

/// NodeStageVolume fails if the check before a growth finds damage, but not if the check cannot run. resize2fs marks
/// the file system before it moves data. After an interrupted growth, the driver checks the file system before the
/// mount, and does not mount one that the check cannot repair.
#[test]
fn file_system_is_checked_before_and_after_a_failed_growth() {
    in_mount_namespace(|| async {
        give_up_growth_of_mounted_ext();
        // Sets the state "errors detected", in a superblock without a checksum. A check that repairs the file system
        // sets "clean".
        let breaks_off = "printf '\\002' | dd of=\"$1\" bs=1 seek=1082 conv=notrunc status=none; exit 1";
        let repairs = "printf '\\001' | dd of=\"$2\" bs=1 seek=1082 conv=notrunc status=none; exit 1";
        for (before, after, is_mounted) in [
            ("exit 8", None, true),
            ("exit 4", None, false),
            ("exit 0", Some(repairs), true),
            ("exit 0", Some("exit 4"), false),
        ] {
            let node = grown_while_unstaged("ext3", &[]).await;
            let check = format!("[ \"$1\" = -f ] && {before}\n{}", after.unwrap_or_default());
            let tools = TracedTools::new(&node, &[("e2fsck", &check), ("resize2fs", breaks_off)]);
            let outcome = node.stage(node.stage_request("ext3", &[])).await;
            let started = ["e2fsck -f -p DEVICE", "resize2fs DEVICE", "e2fsck -p DEVICE"];
            assert_eq!(tools.started(), started[..if after.is_some() { 3 } else { 1 }]);
            assert_eq!(!node.mounts_at("staging").await.is_empty(), is_mounted);
            if is_mounted {
                outcome.unwrap();
                assert_eq!(health(&node).await, ["NotGrown"]);
            } else {
                refused(outcome, Code::FailedPrecondition, &["e2fsck by hand"]);
            }
        }
    });
}

/// The health watch also reports when the problem has ended.
#[test]
fn health_watch_reports_a_failed_growth_of_a_volume_in_use() {
    in_mount_namespace(|| async {
        let node = grown_while_unstaged("xfs", &[]).await;
        let tools = TracedTools::that_fail(&node);
        node.staged("xfs").await;
        node.publish(node.publish_request(mount("xfs", &[]))).await.unwrap();
        assert_eq!(node.service.volumes_not_grown(), [(node.volume.clone(), SIZE)]);
        node.service.check_volumes().await;
        assert_eq!(node.service.unhealthy_volumes(), [(node.volume.clone(), "Degraded", "NotGrown")]);
        drop(tools);
        node.expand(node.text("target")).await.unwrap();
        assert_eq!(node.service.volumes_not_grown(), []);
        node.service.check_volumes().await;
        assert_eq!(node.service.unhealthy_volumes(), []);
    });
}

/// The new driver process waits before it reports the file system, because an expansion may still follow.
#[test]
fn restarted_driver_finds_a_file_system_that_has_not_grown() {
    in_mount_namespace(|| async {
        let node = grown_while_unstaged("xfs", &[]).await;
        let tools = TracedTools::that_fail(&node);
        node.staged("xfs").await;
        drop(tools);
        let next = node.again(|_| {}).service;
        next.check_volumes().await;
        assert_eq!((next.unhealthy_volumes(), next.volumes_not_grown()), (vec![], vec![]));
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(301)).await;
        tokio::time::resume();
        next.check_volumes().await;
        assert_eq!(next.unhealthy_volumes()[0].2, "NotGrown");
        assert_eq!(next.volumes_not_grown()[0].1, SIZE);
        // The driver does not report volumes that are no longer on this node.
        node.unstage().await.unwrap();
        node.service.check_volumes().await;
        assert_eq!((node.service.unhealthy_volumes(), node.service.volumes_not_grown()), (vec![], vec![]));
    });
}

/// On a large volume, the check before a growth takes hours. If the growth then fails, the next NodeStageVolume call
/// repeats neither.
#[test]
fn failed_growth_that_took_long_is_not_repeated() {
    in_mount_namespace(|| async {
        give_up_growth_of_mounted_ext();
        let node = grown_while_unstaged("ext4", &[]).await;
        let held = node.path("held");
        std::fs::write(&held, "").unwrap();
        let check = format!("while [ -e {} ]; do sleep 0.01; done", held.display());
        let tools = TracedTools::new(&node, &[("e2fsck", &check), ("resize2fs", "exit 1")]);
        let slowly = async {
            let begun = async {
                while tools.started().is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(BOUND, begun).await.expect("a check");
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(61)).await;
            tokio::time::resume();
            std::fs::remove_file(&held).unwrap();
        };
        tokio::join!(node.staged("ext4"), slowly);
        node.unstage().await.unwrap();
        let once = ["e2fsck -f -p DEVICE", "resize2fs DEVICE"];
        assert_eq!(tools.started(), once);
        node.staged("ext4").await;
        node.unstage().await.unwrap();
        assert_eq!(tools.started(), once);
        // After the disk has grown again, the driver tries to grow the file system again.
        node.disk.grow(3 * SIZE).unwrap();
        node.staged("ext4").await;
        assert_eq!(tools.started().len(), 4);
    });
}

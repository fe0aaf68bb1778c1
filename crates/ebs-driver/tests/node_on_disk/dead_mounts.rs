//! Tests dead mounts, whose disk vanished or whose file system was shut down. The driver unmounts them if no process
//! would lose data, and never treats them as staged or published.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use ebs_testkit::loop_device::LoopDevice;
use rustix::fs::{major, minor};

use crate::prelude::*;
use crate::release::{another_namespace, sysfs_with};

const BOUND: Duration = Duration::from_secs(20);

/// Shuts the file system down, as after a severe I/O error, so that all accesses fail.
pub(crate) fn shut_down(node: &Node, at: &str) {
    run_tool("/usr/sbin/xfs_io", &["-x", "-c", "shutdown -f", &node.text(at)], BOUND).unwrap();
}

/// The new mount has all synced data. The test includes read-only mounts. While a pod uses the volume, NodeStageVolume
/// and NodePublishVolume fail, and their errors name the paths.
#[test]
fn unused_file_system_that_was_shut_down_is_mounted_again() {
    in_mount_namespace(|| async {
        for fs_type in ["xfs", "ext4"] {
            let node = Node::new(320 * MIB);
            node.staged(fs_type).await;
            let kept = content::write_file(&node.path("staging/kept"), 17, MIB).unwrap();
            node.publish(node.publish_request(mount(fs_type, &[]))).await.unwrap();
            shut_down(&node, "staging");
            let stage = || node.stage(node.stage_request(fs_type, &[]));
            let words = ["is unusable", &node.text("target")];
            refused(stage().await, Code::Unavailable, &words);
            let publish = || node.publish(node.publish_request(mount(fs_type, &[])));
            refused(publish().await, Code::Unavailable, &words[..1]);
            node.unpublish(node.text("target")).await.unwrap();
            // Only NodeStageVolume mounts the file system again.
            refused(publish().await, Code::FailedPrecondition, &words[..1]);
            stage().await.unwrap();
            publish().await.unwrap();
            assert_eq!(content::hash_file(&node.path("target/kept")).unwrap(), kept, "{fs_type}");
            std::fs::write(node.path("target/new"), "x").unwrap();
            assert_eq!((node.mounts_at("staging").await.len(), node.mounts_at("target").await.len()), (1, 1));
            node.unpublish(node.text("target")).await.unwrap();
            node.unstage().await.unwrap();
            // Use a read-only request, for which the file system need not grow.
            let read_only = || node.stage(node.stage_request(fs_type, &["ro"]));
            read_only().await.unwrap();
            shut_down(&node, "staging");
            read_only().await.unwrap();
            assert_eq!(content::hash_file(&node.path("staging/kept")).unwrap(), kept, "{fs_type}");
        }
    });
}

/// A process still has a file open on the dead file system.
#[test]
fn stage_fails_while_a_dead_file_system_is_in_use() {
    with_node_of(320 * MIB, async |node| {
        node.staged("xfs").await;
        let open = std::fs::File::create(node.path("staging/file")).unwrap();
        shut_down(node, "staging");
        refused(node.stage(node.stage_request("xfs", &[])).await, Code::Unavailable, &["in use"]);
        assert_eq!(node.mounts_at("staging").await.len(), 1);
        drop(open);
        node.staged("xfs").await;
    });
}

/// A second mount of the disk would show the same dead file system.
#[test]
fn dead_file_system_used_in_another_namespace_is_not_staged() {
    with_node_of(320 * MIB, async |node| {
        node.staged("xfs").await;
        std::fs::write(node.path("staging/file"), "kept").unwrap();
        let mut holder = another_namespace(node, Some("staging/file")).await;
        shut_down(node, "staging");
        // The first call unmounts the file system and finds the process that holds it. Later calls mount the file
        // system and find it still dead.
        let process = format!("process {}", holder.pid());
        for words in [["held", &process], ["is unusable", "another mount namespace"]] {
            let status = node.stage(node.stage_request("xfs", &[])).await.unwrap_err();
            assert!(words.iter().all(|word| status.message().contains(word)), "{status:?}");
            assert!(node.mounts_at("staging").await.is_empty());
        }
        holder.kill().unwrap();
        node.staged("xfs").await;
    });
}

/// Another mount namespace has an unused copy of the dead mount.
#[test]
fn idle_copy_of_a_dead_mount_does_not_block_a_stage() {
    with_node_of(320 * MIB, async |node| {
        node.staged("xfs").await;
        let _holder = another_namespace(node, None).await;
        shut_down(node, "staging");
        node.staged("xfs").await;
        std::fs::write(node.path("staging/file"), "x").unwrap();
    });
}

/// A volume after a forced detachment and a new attachment: its data is on a new disk, and the kernel no longer lists
/// the previous disk. A loop device with mounts cannot vanish, so the test uses a sysfs that does not list the loop
/// device.
struct CameBack {
    disk: LoopDevice,
    calls: Calls,
}

impl CameBack {
    fn of(node: &Node) -> Self {
        let disk = LoopDevice::new(&node.volume, content::size_of(node.disk.path()).unwrap()).unwrap();
        std::fs::copy(node.disk.backing_file(), disk.backing_file()).unwrap();
        let sys = node.path("sysfs-after");
        let real = std::fs::canonicalize(PathBuf::from("/sys/block").join(disk.name())).unwrap();
        for directory in ["block", "dev/block"] {
            std::fs::create_dir_all(sys.join(directory)).unwrap();
        }
        let number = std::fs::metadata(disk.path()).unwrap().rdev();
        symlink(&real, sys.join("block").join(disk.name())).unwrap();
        symlink(&real, sys.join("dev/block").join(format!("{}:{}", major(number), minor(number)))).unwrap();
        let directory = disk.directory().to_owned();
        let calls = node.again(|config| {
            config.sys = sys;
            config.simulated_devices = Some(directory);
        });
        Self { disk, calls }
    }
}

/// One call each of NodeStageVolume and NodePublishVolume is enough to replace the mounts.
#[test]
fn reattached_volume_replaces_its_dead_mounts() {
    with_staged_node(async |node| {
        let kept = content::write_file(&node.path("staging/kept"), 19, MIB).unwrap();
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        // Sync only this file system: syncing all would also wait for other disks, some of which hang on purpose.
        rustix::fs::syncfs(std::fs::File::open(node.path("staging")).unwrap()).unwrap();
        let after = CameBack::of(node);
        let stage = || after.calls.stage(node.stage_request("ext4", &[]));
        stage().await.unwrap();
        stage().await.unwrap();
        let publish = || after.calls.publish(node.publish_request(mount("ext4", &[])));
        publish().await.unwrap();
        publish().await.unwrap();
        let number = std::fs::metadata(after.disk.path()).unwrap().rdev();
        for at in ["staging", "target"] {
            let mounts = node.mounts_at(at).await;
            assert_eq!(mounts.len(), 1, "{at}: {mounts:?}");
            assert_eq!((mounts[0].device.major, mounts[0].device.minor), (major(number), minor(number)), "{at}");
        }
        assert_eq!(content::hash_file(&node.path("target/kept")).unwrap(), kept);
        for at in ["target", "staging"] {
            unmount(node.path(at)).await;
        }
    });
}

#[test]
fn reattached_raw_volume_replaces_its_dead_bind() {
    with_node(async |node| {
        // Create a device node of the previous disk and delete it, as the kernel does when a disk vanishes.
        let number = std::fs::metadata(node.disk.path()).unwrap().rdev();
        let former = node.path("former");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &former, rustix::fs::FileType::BlockDevice, mode, number).unwrap();
        std::fs::write(node.path("target"), "").unwrap();
        rustix::mount::mount_bind(&former, node.path("target")).unwrap();
        std::fs::remove_file(&former).unwrap();
        let after = CameBack::of(node);
        after.calls.publish(node.publish_request(block())).await.unwrap();
        assert_eq!(node.mounts_at("target").await.len(), 1);
        let shown = std::fs::metadata(node.path("target")).unwrap().rdev();
        assert_eq!(shown, std::fs::metadata(after.disk.path()).unwrap().rdev());
    });
}

/// A disk that is present but cannot be identified has not vanished.
#[test]
fn mount_of_an_unidentified_disk_is_kept() {
    with_staged_node(async |node| {
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        let after = CameBack::of(node);
        // sysfs still lists the previous disk, which does not report its identity.
        let number = std::fs::metadata(node.disk.path()).unwrap().rdev();
        let silent = sysfs_with(node, "sdz", &format!("{}:{}", major(number), minor(number)));
        let listed = node.path("sysfs-after/dev/block").join(format!("{}:{}", major(number), minor(number)));
        symlink(silent.join("devices/sdz"), listed).unwrap();
        let stage = after.calls.stage(node.stage_request("ext4", &[])).await;
        refused(stage, Code::Unavailable, &["another mount"]);
        assert_eq!((node.mounts_at("staging").await.len(), node.mounts_at("target").await.len()), (1, 1));
    });
}

/// A mount over a parent directory hides the volume's mount, so NodeUnstageVolume fails.
#[test]
fn unstage_fails_while_another_mount_hides_the_volume() {
    with_node(async |node| {
        let mut request = node.stage_request("ext4", &[]);
        request.staging_target_path = node.text("kubelet/staging");
        node.stage(request).await.unwrap();
        rustix::mount::mount("none", node.path("kubelet"), "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        let unstage = || node.unstage_at(node.text("kubelet/staging"));
        refused(unstage().await, Code::FailedPrecondition, &["still in use", &node.text("kubelet/staging")]);
        unmount(node.path("kubelet")).await;
        unstage().await.unwrap();
        assert!(!node.path("kubelet/staging").exists());
    });
}

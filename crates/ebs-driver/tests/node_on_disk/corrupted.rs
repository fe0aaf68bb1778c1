//! Mounts that are of no use any more: a disk that vanished below, a file system
//! that was shut down. They make room for the volume where nobody loses anything by it, and are never answered for.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use crate::node::{MIB, Node, block, mount, refused};
use crate::release::sysfs_with;
use csi_proto::csi;
use csi_proto::csi::node_server::Node as _;
use ebs_driver::node::NodeService;
use ebs_testkit::content;
use ebs_testkit::kubelet;
use ebs_testkit::loop_device::LoopDevice;
use ebs_testkit::mount_namespace::{in_mount_namespace, unmount};
use ebs_testkit::process::{Process, ProcessSpec, run_tool};
use rustix::fs::{major, minor};
use tonic::{Code, Request};

const BOUND: Duration = Duration::from_secs(20);

/// What an I/O error in the wrong place does, and with it ends all access to the file system.
pub(crate) fn shut_down(node: &Node, at: &str) {
    run_tool("/usr/sbin/xfs_io", &["-x", "-c", "shutdown -f", &node.text(at)], BOUND).unwrap();
}

/// A file system that was shut down is mounted anew by the next stage when nobody uses it, with all that was synced, also
/// where it is mounted read-only; while a pod has it, stage and publish refuse and say where.
#[test]
fn a_file_system_that_was_shut_down_is_mounted_anew_when_nobody_uses_it() {
    in_mount_namespace(|| async {
        for fs_type in ["xfs", "ext4"] {
            let node = Node::new(320 * MIB);
            node.staged(fs_type).await;
            let kept = content::write_file(&node.path("staging/kept"), 17, MIB).unwrap();
            node.publish(node.publish_request(mount(fs_type, &[]))).await.unwrap();
            shut_down(&node, "staging");
            let stage = || node.stage(node.stage_request(fs_type, &[]));
            let words = ["cannot be used any more", &node.text("target")];
            refused(stage().await, Code::Unavailable, &words);
            let publish = || node.publish(node.publish_request(mount(fs_type, &[])));
            refused(publish().await, Code::Unavailable, &words[..1]);
            node.unpublish(node.text("target")).await.unwrap();
            // Only a stage repairs it.
            refused(publish().await, Code::FailedPrecondition, &words[..1]);
            stage().await.unwrap();
            publish().await.unwrap();
            assert_eq!(content::hash_file(&node.path("target/kept")).unwrap(), kept, "{fs_type}");
            std::fs::write(node.path("target/new"), "x").unwrap();
            assert_eq!((node.mounts_at("staging").await.len(), node.mounts_at("target").await.len()), (1, 1));
            node.unpublish(node.text("target")).await.unwrap();
            node.unstage().await.unwrap();
            // Read-only, where nothing is to be grown either.
            let read_only = || node.stage(node.stage_request(fs_type, &["ro"]));
            read_only().await.unwrap();
            shut_down(&node, "staging");
            read_only().await.unwrap();
            assert_eq!(content::hash_file(&node.path("staging/kept")).unwrap(), kept, "{fs_type}");
            node.unstage().await.unwrap();
        }
    });
}

/// A dead file system that a process still has open is not taken away from it.
#[test]
fn a_dead_file_system_in_use_stays_and_the_stage_fails() {
    in_mount_namespace(|| async {
        let node = Node::new(320 * MIB);
        node.staged("xfs").await;
        let open = std::fs::File::create(node.path("staging/file")).unwrap();
        shut_down(&node, "staging");
        refused(node.stage(node.stage_request("xfs", &[])).await, Code::Unavailable, &["in use"]);
        assert_eq!(node.mounts_at("staging").await.len(), 1);
        drop(open);
        node.staged("xfs").await;
        node.unstage().await.unwrap();
    });
}

/// A process in a mount namespace of its own, which has copies of all mounts of this one. It runs a shell command there first.
async fn another_namespace(node: &Node, first: &str) -> Process {
    let script = format!("{first}; touch {}; exec /usr/bin/sleep 600", node.text("entered"));
    let args = ["--mount", "--propagation", "private", "/bin/sh", "-c", &script];
    let spec = ProcessSpec {
        name: "a container with mounts of its own".to_owned(),
        program: "/usr/bin/unshare".into(),
        args: args.map(Into::into).into(),
        env: Default::default(),
        log: node.path("holder.log"),
    };
    let process = Process::spawn(spec).unwrap();
    let entered = async {
        while !node.path("entered").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(BOUND, entered).await.expect("a namespace of its own");
    process
}

/// A dead file system that a process in another mount namespace uses is not mounted a second time: that would show the same dead
/// file system.
#[test]
fn a_dead_file_system_used_in_another_namespace_is_not_staged() {
    in_mount_namespace(|| async {
        let node = Node::new(320 * MIB);
        node.staged("xfs").await;
        std::fs::write(node.path("staging/file"), "kept").unwrap();
        let mut holder = another_namespace(&node, &format!("exec 3< {}", node.text("staging/file"))).await;
        shut_down(&node, "staging");
        // The first call unmounts it and finds the holder; the next ones find it dead again.
        let process = format!("process {}", holder.pid());
        for words in [["held", &process], ["cannot be used any more", "another mount namespace"]] {
            let status = node.stage(node.stage_request("xfs", &[])).await.unwrap_err();
            assert!(words.iter().all(|word| status.message().contains(word)), "{status:?}");
            assert!(node.mounts_at("staging").await.is_empty());
        }
        holder.kill().unwrap();
        node.staged("xfs").await;
        node.unstage().await.unwrap();
    });
}

/// A copy of a dead mount that nobody uses, in another mount namespace, keeps the volume from no stage.
#[test]
fn an_idle_copy_of_a_dead_mount_keeps_no_volume() {
    in_mount_namespace(|| async {
        let node = Node::new(320 * MIB);
        node.staged("xfs").await;
        let _holder = another_namespace(&node, "true").await;
        shut_down(&node, "staging");
        node.staged("xfs").await;
        std::fs::write(node.path("staging/file"), "x").unwrap();
        node.unstage().await.unwrap();
    });
}

/// The same volume after it was detached by force and attached again: another disk with its data, and a kernel that knows the
/// former one no more. A loop device with mounts cannot vanish, so a sysfs without it stands for that.
struct CameBack {
    disk: LoopDevice,
    service: NodeService,
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
        let service = node.again(|config| {
            config.sys = sys;
            config.simulated_devices = Some(directory);
        });
        Self { disk, service }
    }
}

/// A volume whose disk vanished and that is attached again is staged and published in place of what is left of its mounts, in
/// one call each.
#[test]
fn a_volume_that_came_back_is_staged_and_published_in_place_of_its_dead_mounts() {
    in_mount_namespace(|| async {
        let node = Node::new(64 * MIB);
        node.staged("ext4").await;
        let kept = content::write_file(&node.path("staging/kept"), 19, MIB).unwrap();
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        // Of this file system alone: to sync all would wait for disks of others, which may hang on purpose.
        rustix::fs::syncfs(std::fs::File::open(node.path("staging")).unwrap()).unwrap();
        let after = CameBack::of(&node);
        let stage = || kubelet::stage(&after.service, node.stage_request("ext4", &[]));
        stage().await.unwrap();
        stage().await.unwrap();
        let publish = || after.service.node_publish_volume(Request::new(node.publish_request(mount("ext4", &[]))));
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
fn a_raw_volume_that_came_back_is_published_in_place_of_its_dead_bind() {
    in_mount_namespace(|| async {
        let node = Node::new(64 * MIB);
        // A node of its own for the former disk, deleted as the kernel deletes that of a disk that goes.
        let number = std::fs::metadata(node.disk.path()).unwrap().rdev();
        let former = node.path("former");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &former, rustix::fs::FileType::BlockDevice, mode, number).unwrap();
        std::fs::write(node.path("target"), "").unwrap();
        rustix::mount::mount_bind(&former, node.path("target")).unwrap();
        std::fs::remove_file(&former).unwrap();
        let after = CameBack::of(&node);
        let request = csi::NodePublishVolumeRequest { ..node.publish_request(block()) };
        after.service.node_publish_volume(Request::new(request)).await.unwrap();
        assert_eq!(node.mounts_at("target").await.len(), 1);
        let shown = std::fs::metadata(node.path("target")).unwrap().rdev();
        assert_eq!(shown, std::fs::metadata(after.disk.path()).unwrap().rdev());
        unmount(node.path("target")).await;
    });
}

/// A disk that is there and cannot be identified has not vanished: its mounts stay, and nothing is mounted beside them.
#[test]
fn a_mount_whose_disk_cannot_be_identified_stays_and_nothing_is_mounted_beside_it() {
    in_mount_namespace(|| async {
        let node = Node::new(64 * MIB);
        node.staged("ext4").await;
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        let after = CameBack::of(&node);
        // The former disk is still listed, and says nothing of itself.
        let number = std::fs::metadata(node.disk.path()).unwrap().rdev();
        let silent = sysfs_with(&node, "sdz", &format!("{}:{}", major(number), minor(number)));
        let listed = node.path("sysfs-after/dev/block").join(format!("{}:{}", major(number), minor(number)));
        symlink(silent.join("devices/sdz"), listed).unwrap();
        let stage = kubelet::stage(&after.service, node.stage_request("ext4", &[])).await;
        refused(stage, Code::Unavailable, &["another mount"]);
        assert_eq!((node.mounts_at("staging").await.len(), node.mounts_at("target").await.len()), (1, 1));
        node.unpublish(node.text("target")).await.unwrap();
        node.unstage().await.unwrap();
    });
}

/// A volume whose mount is hidden by another over a directory above it is neither reported as unstaged nor unmounted blindly.
#[test]
fn a_volume_whose_mount_is_hidden_is_not_reported_as_unstaged() {
    in_mount_namespace(|| async {
        let node = Node::new(64 * MIB);
        let mut request = node.stage_request("ext4", &[]);
        request.staging_target_path = node.text("kubelet/staging");
        node.stage(request).await.unwrap();
        rustix::mount::mount("none", node.path("kubelet"), "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        let unstage = || {
            let mut request = node.unstage_request();
            request.staging_target_path = node.text("kubelet/staging");
            node.service.node_unstage_volume(Request::new(request))
        };
        refused(unstage().await, Code::FailedPrecondition, &["still in use", &node.text("kubelet/staging")]);
        unmount(node.path("kubelet")).await;
        unstage().await.unwrap();
        assert!(!node.path("kubelet/staging").exists());
    });
}

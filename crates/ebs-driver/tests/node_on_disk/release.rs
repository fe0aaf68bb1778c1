//! Letting go of a volume: unstaged means that nothing holds the disk.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use crate::node::{MIB, Node, block, mount, refused, with_node, with_staged_node};
use csi_proto::csi;
use csi_proto::csi::node_server::Node as _;
use ebs_testkit::mount_namespace::{in_mount_namespace, unmount};
use ebs_testkit::process::{Process, ProcessSpec};
use tonic::{Code, Request};

const BOUND: Duration = Duration::from_secs(20);
const O_EXCL: i32 = 0o200;

/// A volume that is published, or bound raw, is not unstaged, the places are named, and it stays staged.
#[test]
fn a_volume_that_is_still_published_is_not_unstaged_and_its_targets_are_named() {
    with_staged_node(async |node| {
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        let open = std::fs::File::create(node.path("target/file")).unwrap();
        let target = node.text("target");
        refused(node.unstage().await, Code::FailedPrecondition, &["still in use", &target, node.volume.as_str()]);
        assert_eq!(node.mounts_at("staging").await.len(), 1, "a refusal leaves the volume staged");
        drop(open);
        node.unpublish(target).await.unwrap();
        node.unstage().await.unwrap();
    });
}

#[test]
fn a_volume_that_is_bound_raw_is_not_unstaged() {
    with_node(async |node| {
        node.publish(node.publish_request(block())).await.unwrap();
        let target = node.text("target");
        refused(node.unstage().await, Code::FailedPrecondition, &["still in use", &target]);
        node.unpublish(target).await.unwrap();
        node.unstage().await.unwrap();
    });
}

/// A volume that another mount namespace or an exclusive open holds is not reported as unstaged, however often that is
/// asked; the holder is named, and that the path is unmounted already.
#[test]
fn a_volume_that_another_mount_namespace_holds_is_not_unstaged_until_it_lets_go() {
    with_staged_node(async |node| {
        std::fs::write(node.path("staging/file"), "in use").unwrap();
        let mut holder = another_namespace(node, Some("staging/file")).await;
        let (process, staging) = (format!("process {}", holder.pid()), node.text("staging"));
        let said = refused(node.unstage().await, Code::FailedPrecondition, &["held", &process, &staging]);
        assert!(said.contains("is unmounted"), "a volume that is half let go is said to be so: {said}");
        // What is let go only in part is never reported as done, however often that is asked.
        refused(node.unstage().await, Code::FailedPrecondition, &["held", &process]);
        holder.kill().unwrap();
        node.unstage().await.unwrap();
    });
}

/// A container that sees the host's directories without mount propagation keeps a private copy of every mount that was there
/// when it started. The copies go with the directory that they are mounted on.
#[test]
fn an_idle_copy_of_the_staging_mount_goes_with_its_directory() {
    with_staged_node(async |node| {
        let holder = another_namespace(node, None).await;
        assert!(has_mounted(&holder, node), "the copy is there");
        node.unstage().await.unwrap();
        assert!(!has_mounted(&holder, node) && !node.path("staging").exists());
        exclusively(node).expect("nobody holds the disk");
    });
}

/// What an earlier version left: the path is unmounted, the directory is there, and with it the copies of other namespaces.
#[test]
fn a_repeated_unstage_removes_the_directory_and_its_copies() {
    with_staged_node(async |node| {
        let holder = another_namespace(node, None).await;
        unmount(node.path("staging")).await;
        assert!(has_mounted(&holder, node) && exclusively(node).is_err(), "the copy holds the disk");
        node.unstage().await.unwrap();
        assert!(!has_mounted(&holder, node) && !node.path("staging").exists());
    });
}

#[test]
fn a_repeated_unstage_leaves_a_directory_that_holds_files() {
    with_node(async |node| {
        std::fs::create_dir(node.path("staging")).unwrap();
        std::fs::write(node.path("staging/file"), "somebody's").unwrap();
        node.unstage().await.unwrap();
        assert_eq!(std::fs::read_to_string(node.path("staging/file")).unwrap(), "somebody's");
    });
}

pub(crate) fn exclusively(node: &Node) -> std::io::Result<std::fs::File> {
    std::fs::File::options().read(true).custom_flags(O_EXCL).open(node.disk.path())
}

/// Whether a process has the node's disk mounted in its namespace.
fn has_mounted(process: &Process, node: &Node) -> bool {
    let table = std::fs::read_to_string(format!("/proc/{}/mountinfo", process.pid())).unwrap();
    table.contains(node.disk.path().to_str().unwrap())
}

/// A process with a mount namespace of its own, in which all mounts of this one stay whatever happens here; with one of
/// this node's files open, if it is named.
pub(crate) async fn another_namespace(node: &Node, file: Option<&str>) -> Process {
    let mut args: Vec<String> = ["--mount", "--propagation", "private"].map(str::to_owned).into();
    match file {
        Some(file) => {
            let script = format!("exec 9<'{}'; exec /usr/bin/sleep 600", node.text(file));
            args.extend(["/bin/sh".to_owned(), "-c".to_owned(), script]);
        }
        None => args.extend(["/usr/bin/sleep".to_owned(), "600".to_owned()]),
    }
    let spec = ProcessSpec {
        name: "a leaked container".to_owned(),
        program: "/usr/bin/unshare".into(),
        args: args.into_iter().map(Into::into).collect(),
        env: Default::default(),
        log: node.path("holder.log"),
    };
    let process = Process::spawn(spec).unwrap();
    let own = Path::new("/proc").join(process.pid().to_string());
    let sleeps = async {
        // The last thing that it becomes: by then it is in its namespace and has its file.
        while std::fs::read_to_string(own.join("comm")).unwrap().trim() != "sleep" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(BOUND, sleeps).await.expect("a namespace of its own");
    process
}

#[test]
fn a_volume_whose_device_is_opened_exclusively_is_not_unstaged() {
    with_node(async |node| {
        let holder = std::fs::File::options().read(true).custom_flags(O_EXCL).open(node.disk.path()).unwrap();
        let process = format!("process {}", std::process::id());
        refused(node.unstage().await, Code::FailedPrecondition, &["held", &process]);
        drop(holder);
        node.unstage().await.unwrap();
    });
}

/// A second view of the staging mount, which goes with it, is no other use.
#[test]
fn a_mount_that_goes_with_the_staging_mount_is_no_other_use() {
    with_staged_node(async |node| {
        // The same directory seen twice: the second view of the mount goes when the first one does.
        let (place, twin) = (node.path("staging"), node.path("twin"));
        node.unstage().await.unwrap();
        std::fs::create_dir_all(&twin).unwrap();
        std::fs::create_dir_all(node.path("kubelet")).unwrap();
        rustix::mount::mount_bind(node.path("kubelet"), node.path("kubelet")).unwrap();
        rustix::mount::mount_change(node.path("kubelet"), rustix::mount::MountPropagationFlags::SHARED).unwrap();
        rustix::mount::mount_bind(node.path("kubelet"), &twin).unwrap();
        let mut request = node.stage_request("ext4", &[]);
        request.staging_target_path = node.text("kubelet/staging");
        node.stage(request).await.unwrap();
        assert_eq!(node.mounts_at("twin/staging").await.len(), 1, "the mount is seen at both");
        let request = csi::NodeUnstageVolumeRequest {
            volume_id: node.volume.to_string(),
            staging_target_path: node.text("kubelet/staging"),
        };
        node.service.node_unstage_volume(Request::new(request)).await.unwrap();
        assert!(node.mounts_at("twin/staging").await.is_empty() && !place.exists());
    });
}

/// A vanished device is let go although it is published.
#[test]
fn a_vanished_device_is_let_go_although_it_is_published() {
    with_staged_node(async |node| {
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        let _open = std::fs::File::create(node.path("target/file")).unwrap();
        // A sysfs that can be read and lists other disks: what is seen after a surprise detach.
        let sys = sysfs_with(node, "sdz", "8:400");
        let after = node.again(|config| config.sys = sys);
        after.node_unstage_volume(Request::new(node.unstage_request())).await.unwrap();
        assert!(node.mounts_at("staging").await.is_empty());
    });
}

/// Each mount is asked for its owner before it is unmounted, top to bottom; a foreign one ends the RPC and stays.
#[test]
fn a_foreign_mount_below_ours_ends_the_unstage_and_stays() {
    in_mount_namespace(|| async {
        let (node, other) = (Node::new(64 * MIB), Node::new(64 * MIB));
        let mut request = other.stage_request("ext4", &[]);
        request.staging_target_path = node.text("staging");
        other.stage(request).await.unwrap();
        cover(&node, "staging").await;
        refused(node.unstage().await, Code::FailedPrecondition, &[other.volume.as_str()]);
        assert_eq!(node.mounts_at("staging").await.len(), 1, "the foreign mount below went too");
    });
}

#[test]
fn a_foreign_mount_below_ours_ends_the_unpublish_and_stays() {
    with_node(async |node| {
        let target = node.path("target");
        std::fs::create_dir(&target).unwrap();
        rustix::mount::mount("none", &target, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        cover(node, "target").await;
        refused(node.unpublish(node.text("target")).await, Code::FailedPrecondition, &["tmpfs"]);
        assert_eq!(node.mounts_at("target").await.len(), 1, "the foreign mount below went too");
    });
}

/// Stacks the volume on what is mounted at a path already, as the reference leaves it behind.
async fn cover(node: &Node, name: &str) {
    let mut request = node.stage_request("ext4", &[]);
    request.staging_target_path = node.text("second");
    node.stage(request).await.unwrap();
    rustix::mount::mount_bind(node.path("second"), node.path(name)).unwrap();
    unmount(node.path("second")).await;
}

/// A node-local volume of the reference can be unpublished and unstaged; only a mount without a disk is not its.
#[test]
fn a_node_local_volume_of_the_reference_can_be_taken_down() {
    with_staged_node(async |node| {
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        let volume_id = "local-ebs://dev/xvdbz".to_owned();
        let target_path = node.text("target");
        let request = csi::NodeUnpublishVolumeRequest { volume_id: volume_id.clone(), target_path };
        node.service.node_unpublish_volume(Request::new(request)).await.unwrap();
        assert!(!node.path("target").exists());
        let staging_target_path = node.text("staging");
        let request = csi::NodeUnstageVolumeRequest { volume_id, staging_target_path };
        node.service.node_unstage_volume(Request::new(request.clone())).await.unwrap();
        assert!(!node.path("staging").exists());
        node.service.node_unstage_volume(Request::new(request)).await.unwrap();
    });
}

#[test]
fn a_node_local_handle_does_not_take_a_mount_without_a_disk_away() {
    in_mount_namespace(|| async {
        let node = Node::new(MIB);
        let target = node.path("target");
        std::fs::create_dir(&target).unwrap();
        rustix::mount::mount("none", &target, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        let request = csi::NodeUnpublishVolumeRequest {
            volume_id: "local-ebs://dev/xvdbz".to_owned(),
            target_path: node.text("target"),
        };
        let outcome = node.service.node_unpublish_volume(Request::new(request)).await;
        refused(outcome, Code::FailedPrecondition, &["tmpfs", "local-ebs://dev/xvdbz"]);
        assert_eq!(node.mounts_at("target").await.len(), 1);
    });
}

#[test]
fn a_raw_device_in_use_that_vanished_is_let_go() {
    with_node(async |node| {
        node.publish(node.publish_request(block())).await.unwrap();
        let _open = std::fs::File::open(node.path("target")).unwrap();
        let sys = sysfs_with(node, "sdz", "8:400");
        let after = node.again(|config| config.sys = sys);
        let request =
            csi::NodeUnpublishVolumeRequest { volume_id: node.volume.to_string(), target_path: node.text("target") };
        after.node_unpublish_volume(Request::new(request)).await.unwrap();
        assert!(!node.path("target").exists());
    });
}

/// Whether a disk that cannot be examined is free is not known.
#[test]
fn a_volume_whose_disk_cannot_be_examined_is_not_unstaged() {
    with_node(async |node| {
        let dev = node.path("dev");
        std::fs::create_dir_all(dev.join("disk/by-id")).unwrap();
        std::fs::write(dev.join("file"), "no device").unwrap();
        let name = format!("nvme-Amazon_Elastic_Block_Store_{}", node.volume.serial());
        std::os::unix::fs::symlink("../../file", dev.join("disk/by-id").join(name)).unwrap();
        let service = node.again(|config| config.dev = dev);
        let outcome = service.node_unstage_volume(Request::new(node.unstage_request())).await;
        refused(outcome, Code::FailedPrecondition, &["cannot be examined"]);
    });
}

/// A sysfs of its own with one disk, of this name and number.
pub(crate) fn sysfs_with(node: &Node, name: &str, number: &str) -> std::path::PathBuf {
    let sys = node.path("sys");
    let disk = sys.join("devices").join(name);
    for directory in [&disk, &sys.join("block"), &sys.join("dev/block")] {
        std::fs::create_dir_all(directory).unwrap();
    }
    std::fs::write(disk.join("dev"), format!("{number}\n")).unwrap();
    std::os::unix::fs::symlink(&disk, sys.join("block").join(name)).unwrap();
    std::os::unix::fs::symlink(&disk, sys.join("dev/block").join(number)).unwrap();
    sys
}

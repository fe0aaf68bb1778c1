//! Tests NodeUnstageVolume. When it succeeds, nothing holds the disk.

use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ebs_testkit::process::{Process, ProcessSpec};

use crate::node_local::as_local;
use crate::prelude::*;

const BOUND: Duration = Duration::from_secs(20);
const O_EXCL: i32 = 0o200;

/// The error names the paths, and the volume stays staged.
#[test]
fn unstage_of_a_volume_in_use_fails_and_names_the_targets() {
    with_staged_node(async |node| {
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        let target = node.text("target");
        let words = ["still in use", &target, node.volume.as_str()];
        for (file, said) in [("target/file", &words[..]), ("staging/file", &["in use"])] {
            let open = std::fs::File::create(node.path(file)).unwrap();
            refused(node.unstage().await, Code::FailedPrecondition, said);
            assert_eq!(node.mounts_at("staging").await.len(), 1, "a refusal leaves the volume staged");
            drop(open);
            node.unpublish(target.clone()).await.unwrap();
        }
        node.unstage().await.unwrap();
        // A raw volume is not staged, but its device at a target blocks NodeUnstageVolume.
        node.publish(node.publish_request(block())).await.unwrap();
        refused(node.unstage().await, Code::FailedPrecondition, &words);
        node.unpublish(target.clone()).await.unwrap();
        node.unstage().await.unwrap();
    });
}

/// Repeated calls fail, too. The error names the holder, and reports that the path is already unmounted.
#[test]
fn volume_held_in_another_mount_namespace_is_not_unstaged() {
    with_staged_node(async |node| {
        std::fs::write(node.path("staging/file"), "in use").unwrap();
        let mut holder = another_namespace(node, Some("staging/file")).await;
        let (process, staging) = (format!("process {}", holder.pid()), node.text("staging"));
        let said = refused(node.unstage().await, Code::FailedPrecondition, &["held", &process, &staging]);
        assert!(said.contains("is unmounted"), "the error reports a partly released volume: {said}");
        // A repeated call must not report the volume as unstaged while it is only partly released.
        refused(node.unstage().await, Code::FailedPrecondition, &["held", &process]);
        holder.kill().unwrap();
        node.unstage().await.unwrap();
    });
}

/// A container that has the host's directories without mount propagation keeps a private copy of every mount that
/// existed when it started. The kernel unmounts the copies when the directory is removed. An earlier driver version
/// unmounted the path, but left the directory and the copies.
#[test]
fn idle_copy_of_the_staging_mount_is_removed_by_unstage() {
    with_staged_node(async |node| {
        for is_unmounted in [false, true] {
            node.staged("ext4").await;
            let holder = another_namespace(node, None).await;
            if is_unmounted {
                unmount(node.path("staging")).await;
            }
            assert!(has_mounted(&holder, node) && try_exclusive_open(node).is_err(), "the copy holds the disk");
            node.unstage().await.unwrap();
            assert!(!has_mounted(&holder, node) && !node.path("staging").exists());
            exclusively(node).await;
        }
    });
}

fn try_exclusive_open(node: &Node) -> std::io::Result<std::fs::File> {
    std::fs::File::options().read(true).custom_flags(O_EXCL).open(node.disk.path())
}

/// Opens the node's disk exclusively. Fails at the third attempt, after 20 ms, unless a child that another test has forked
/// holds the disk: the child inherits the driver's own exclusive descriptor until it executes its program.
pub(crate) async fn exclusively(node: &Node) -> std::fs::File {
    let opened = async {
        // A child may execute its program between the open and the look at its descriptors.
        let mut unexplained = 0;
        loop {
            match try_exclusive_open(node) {
                Ok(file) => return file,
                Err(_) if is_held_by_forked_child(node) => unexplained = 0,
                Err(error) => {
                    unexplained += 1;
                    assert!(unexplained < 3, "the disk is held: {error}");
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), opened).await.expect("forked children execute their programs")
}

/// Returns true if another process that still runs the program of this test has the node's disk open.
fn is_held_by_forked_child(node: &Node) -> bool {
    let disk = std::fs::metadata(node.disk.path()).unwrap().rdev();
    let program = std::fs::read_link("/proc/self/exe").unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let mut children = processes.filter(|process| {
        !process.ends_with(std::process::id().to_string())
            && std::fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program)
            && std::fs::read_link(process).is_err()
    });
    children.any(|process| {
        let descriptors = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        descriptors.filter_map(|entry| std::fs::metadata(entry.path()).ok()).any(|file| file.rdev() == disk)
    })
}

/// Returns true when a process has the node's disk mounted in its namespace.
fn has_mounted(process: &Process, node: &Node) -> bool {
    let table = std::fs::read_to_string(format!("/proc/{}/mountinfo", process.pid())).unwrap();
    table.contains(node.disk.path().to_str().unwrap())
}

/// Starts a process with a copy of the current mount namespace. If `file` is given, the process opens this file of the
/// node.
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
        // `sleep` starts only after the process has entered its namespace and opened the file.
        while std::fs::read_to_string(own.join("comm")).unwrap().trim() != "sleep" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(BOUND, sleeps).await.expect("a namespace of its own");
    process
}

/// With shared propagation, the mount's copy at another path disappears with the staging mount.
#[test]
fn propagated_staging_mount_does_not_block_unstage() {
    with_staged_node(async |node| {
        // Both directories share mounts: a mount below the first also appears below the second, and disappears with it.
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
        node.unstage_at(node.text("kubelet/staging")).await.unwrap();
        assert!(node.mounts_at("twin/staging").await.is_empty() && !place.exists());
    });
}

/// The calls succeed even while a pod uses the volume.
#[test]
fn volume_with_a_vanished_device_is_unpublished_and_unstaged() {
    with_node(async |node| {
        // Use a readable sysfs that lists other disks, as after a surprise detachment.
        let sys = sysfs_with(node, "sdz", "8:400");
        let after = node.again(|config| config.sys = sys);
        node.publish(node.publish_request(block())).await.unwrap();
        let open = std::fs::File::open(node.path("target")).unwrap();
        after.unpublish(node.text("target")).await.unwrap();
        assert!(!node.path("target").exists());
        drop(open);
        node.staged("ext4").await;
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        let _open = std::fs::File::create(node.path("target/file")).unwrap();
        after.unstage().await.unwrap();
        assert!(node.mounts_at("staging").await.is_empty());
    });
}

/// The driver works from the top down, and checks which volume a mount belongs to before unmounting it. It stops at a
/// foreign mount, even at one that the volume's mount covered.
#[test]
fn foreign_staging_mount_is_neither_covered_nor_unmounted() {
    in_mount_namespace(|| async {
        let (node, other) = (Node::new(64 * MIB), Node::new(64 * MIB));
        let mut request = other.stage_request("ext4", &[]);
        request.staging_target_path = node.text("staging");
        other.stage(request).await.unwrap();
        refused(node.stage(node.stage_request("ext4", &[])).await, Code::Unavailable, &["another mount"]);
        refused(node.unstage().await, Code::FailedPrecondition, &[other.volume.as_str()]);
        assert_eq!(node.mounts_at("staging").await.len(), 1);
        assert!(node.is_untouched());
        cover(&node, "staging").await;
        refused(node.unstage().await, Code::FailedPrecondition, &[other.volume.as_str()]);
        assert_eq!(node.mounts_at("staging").await.len(), 1, "the foreign mount below went too");
    });
}

#[test]
fn foreign_target_mount_is_neither_covered_nor_unmounted() {
    with_node(async |node| {
        let target = node.path("target");
        std::fs::create_dir(&target).unwrap();
        rustix::mount::mount("none", &target, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        node.staged("ext4").await;
        let outcome = node.publish_over_foreign(node.publish_request(mount("ext4", &[]))).await;
        refused(outcome, Code::FailedPrecondition, &["tmpfs"]);
        refused(node.unpublish(node.text("target")).await, Code::FailedPrecondition, &["tmpfs"]);
        assert_eq!(node.mounts_at("target").await.len(), 1);
        node.unstage().await.unwrap();
        let local = as_local(node);
        let words = ["tmpfs", local.handle.as_str()];
        refused(local.unpublish(node.text("target")).await, Code::FailedPrecondition, &words);
        cover(node, "target").await;
        refused(node.unpublish(node.text("target")).await, Code::FailedPrecondition, &["tmpfs"]);
        assert_eq!(node.mounts_at("target").await.len(), 1, "the foreign mount below went too");
    });
}

/// Mounts the volume over an existing mount at a path, as the reference driver may do.
async fn cover(node: &Node, name: &str) {
    let mut request = node.stage_request("ext4", &[]);
    request.staging_target_path = node.text("second");
    node.stage(request).await.unwrap();
    rustix::mount::mount_bind(node.path("second"), node.path(name)).unwrap();
    unmount(node.path("second")).await;
}

/// The driver cannot find out whether the disk is still in use.
#[test]
fn volume_with_an_unreadable_disk_is_not_unstaged() {
    with_node(async |node| {
        let dev = node.path("dev");
        std::fs::create_dir_all(dev.join("disk/by-id")).unwrap();
        std::fs::write(dev.join("file"), "no device").unwrap();
        let name = format!("nvme-Amazon_Elastic_Block_Store_{}", node.volume.serial());
        std::os::unix::fs::symlink("../../file", dev.join("disk/by-id").join(name)).unwrap();
        let calls = node.again(|config| config.dev = dev);
        refused(calls.unstage().await, Code::FailedPrecondition, &["which has the device name of volume"]);
    });
}

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

//! Tests publish, growth, statistics and health on real disks. Each test has its own mount namespace.

use std::os::unix::fs::FileExt;

use csi_proto::csi::volume_usage::Unit;
use rustix::mount::{MountPropagationFlags, mount_change};

use crate::prelude::*;

#[test]
fn staged_volume_is_published_with_the_requested_flags() {
    with_staged_node(async |node| {
        std::fs::write(node.path("staging/file"), "kept").unwrap();
        let request = node.publish_request(mount("ext4", &["nosuid", "nodev"]));
        node.publish(request.clone()).await.unwrap();
        node.publish(request).await.unwrap();
        let mounts = node.mounts_at("target").await;
        assert_eq!(mounts.len(), 1);
        assert!(["nosuid", "nodev", "rw"].iter().all(|word| mounts[0].options.iter().any(|have| have == word)));
        assert_eq!(std::fs::read_to_string(node.path("target/file")).unwrap(), "kept");
        node.unpublish(node.text("target")).await.unwrap();
        assert!(!node.path("target").exists());
        node.unpublish(node.text("target")).await.unwrap();
        assert_eq!(std::fs::read_to_string(node.path("staging/file")).unwrap(), "kept");
    });
}

/// A later request for a writable mount fails with AlreadyExists.
#[test]
fn read_only_publish_stays_read_only() {
    with_staged_node(async |node| {
        let mut request = node.publish_request(mount("ext4", &[]));
        request.readonly = true;
        node.publish(request.clone()).await.unwrap();
        node.publish(request.clone()).await.unwrap();
        let error = std::fs::write(node.path("target/file"), "x").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        request.readonly = false;
        refused(node.publish(request).await, Code::AlreadyExists, &["ro", node.volume.as_str()]);
        std::fs::write(node.path("staging/file"), "x").unwrap();
    });
}

/// NodeStageVolume fails with a code that is not final, so that the kubelet keeps the mount. NodePublishVolume fails
/// with AlreadyExists. A request that names neither a journal mode nor a type accepts the mount.
#[test]
fn request_for_another_journal_mode_or_fs_type_is_refused() {
    with_node(async |node| {
        let flags = ["data=journal"];
        node.stage(node.stage_request("ext4", &flags)).await.unwrap();
        node.stage(node.stage_request("ext4", &flags)).await.unwrap();
        let outcome = node.stage(node.stage_request("ext4", &["data=writeback"])).await;
        refused(outcome, Code::Unavailable, &["data=journal", "data=writeback"]);
        let outcome = node.publish(node.publish_request(mount("ext4", &["data=ordered"]))).await;
        refused(outcome, Code::AlreadyExists, &["data=journal", "data=ordered"]);
        refused(node.publish(node.publish_request(mount("xfs", &[]))).await, Code::AlreadyExists, &["ext4", "xfs"]);
        assert!(node.mounts_at("target").await.is_empty());
        node.publish(node.publish_request(mount("", &flags))).await.unwrap();
        node.publish(node.publish_request(mount("ext4", &flags))).await.unwrap();
    });
}

/// The target is a read-only mount of the device node. The device itself is not read-only, so a process with access to
/// the device can still write.
#[test]
fn read_only_raw_volume_is_a_read_only_mount_of_a_device_node() {
    with_node(async |node| {
        let mut request = node.publish_request(block());
        request.readonly = true;
        node.publish(request.clone()).await.unwrap();
        node.publish(request).await.unwrap();
        let mounts = node.mounts_at("target").await;
        assert!(mounts.len() == 1 && mounts[0].is_read_only(), "{mounts:?}");
        let read_only = std::fs::read_to_string(format!("/sys/block/{}/ro", node.disk.name())).unwrap();
        assert_eq!(read_only.trim(), "0");
        let device = std::fs::File::options().write(true).open(node.path("target")).unwrap();
        device.write_all_at(b"raw", 4096).unwrap();
        drop(device);
    });
}

/// Mounts lack propagation if, for example, the driver's pod mounts the kubelet's directory without Bidirectional
/// propagation. The log reports this once.
#[test]
fn mounts_without_propagation_are_logged() {
    in_mount_namespace(|| async {
        for (propagation, times) in
            [(rustix::mount::MountPropagationFlags::SHARED, 0), (rustix::mount::MountPropagationFlags::PRIVATE, 1)]
        {
            let log = Log::listen();
            let node = Node::new(64 * MIB);
            rustix::mount::mount_bind(node.place.path(), node.place.path()).unwrap();
            rustix::mount::mount_change(node.place.path(), propagation).unwrap();
            node.staged("ext4").await;
            node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
            assert_eq!(log.lines_with(&["WARN", "mountPropagation: Bidirectional"]).len(), times, "{propagation:?}");
            node.unpublish(node.text("target")).await.unwrap();
            node.unstage().await.unwrap();
            rustix::mount::unmount(node.place.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
        }
    });
}

#[test]
fn volume_that_is_not_staged_is_never_published() {
    in_mount_namespace(|| async {
        let (node, other) = (Node::new(64 * MIB), Node::new(64 * MIB));
        let outcome = node.publish(node.publish_request(mount("ext4", &[]))).await;
        refused(outcome, Code::FailedPrecondition, &["staging", "nothing is mounted"]);
        assert!(!node.path("target").exists());
        // Another volume at the staging path does not make this volume staged.
        other.staged("ext4").await;
        let mut request = node.publish_request(mount("ext4", &[]));
        request.staging_target_path = other.text("staging");
        refused(node.publish(request).await, Code::FailedPrecondition, &["not mounted at the staging path"]);
        assert!(node.mounts_at("target").await.is_empty());
    });
}

/// A path is invalid if, for example, it is relative, contains `..`, or is a link or a directory that is not empty. The
/// test covers stage, publish and unpublish.
#[test]
fn invalid_path_is_refused_without_a_change() {
    with_node(async |node| {
        std::fs::create_dir(node.path("full")).unwrap();
        std::fs::write(node.path("full/file"), "mine").unwrap();
        std::os::unix::fs::symlink("full", node.path("link")).unwrap();
        let parent = format!("{}/../x", node.text("full"));
        let invalid = [("target".to_owned(), "relative"), (parent, ".."), (node.text("link"), "symbolic link")];
        for (path, word) in &invalid {
            let request =
                csi::NodeStageVolumeRequest { staging_target_path: path.clone(), ..node.stage_request("ext4", &[]) };
            refused(node.stage(request).await, Code::InvalidArgument, &[word]);
        }
        let request =
            csi::NodeStageVolumeRequest { staging_target_path: node.text("full"), ..node.stage_request("ext4", &[]) };
        refused(node.stage(request).await, Code::FailedPrecondition, &["not empty"]);
        assert!(node.is_untouched());
        node.staged("ext4").await;
        for capability in [mount("ext4", &[]), block()] {
            let publish = |target_path: &str| {
                let target_path = target_path.to_owned();
                csi::NodePublishVolumeRequest { target_path, ..node.publish_request(capability.clone()) }
            };
            for (path, word) in &invalid {
                refused(node.publish(publish(path)).await, Code::InvalidArgument, &[word]);
                refused(node.unpublish(path.clone()).await, Code::InvalidArgument, &[word]);
            }
            let taken = node.publish(publish(&node.text("full"))).await;
            refused(taken, Code::FailedPrecondition, &["the path is taken"]);
        }
        refused(node.unpublish(node.text("full")).await, Code::FailedPrecondition, &["must be empty"]);
        assert_eq!(std::fs::read_to_string(node.path("full/file")).unwrap(), "mine");
        assert!(node.path("link").is_symlink() && node.mounts_at("full").await.is_empty());
    });
}

/// NodeUnpublishVolume removes the file, but not while a process has the device open.
#[test]
fn raw_block_volume_is_a_device_at_its_target() {
    with_node(async |node| {
        let mut request = node.publish_request(block());
        request.target_path = node.text("pods/target");
        node.publish(request.clone()).await.unwrap();
        node.publish(request.clone()).await.unwrap();
        assert_eq!(node.mounts_at("pods/target").await.len(), 1);
        let device = std::fs::File::options().write(true).open(node.path("pods/target")).unwrap();
        device.write_all_at(b"raw", 4096).unwrap();
        device.sync_all().unwrap();
        drop(device);
        assert_eq!(node.disk.read_at(3, 4096).unwrap(), b"raw");
        let usage = node.stats(node.text("pods/target")).await.unwrap();
        let total = i64::try_from(64 * MIB).unwrap();
        assert_eq!(usage, [csi::VolumeUsage { total, unit: Unit::Bytes.into(), ..Default::default() }]);
        assert_eq!(node.expand(node.text("pods/target")).await.unwrap(), total);
        request.readonly = true;
        refused(node.publish(request).await, Code::AlreadyExists, &["ro"]);
        let open = std::fs::File::open(node.path("pods/target")).unwrap();
        refused(node.unpublish(node.text("pods/target")).await, Code::FailedPrecondition, &["in use"]);
        assert_eq!(node.mounts_at("pods/target").await.len(), 1);
        drop(open);
        node.unpublish(node.text("pods/target")).await.unwrap();
        assert!(!node.path("pods/target").exists() && node.path("pods").exists());
    });
}

/// For other paths, statistics and expansions fail with NotFound.
#[test]
fn statistics_count_bytes_and_inodes_of_the_volume() {
    with_staged_node(async |node| {
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        std::fs::write(node.path("target/file"), vec![1; 1 << 20]).unwrap();
        let usage = node.stats(node.text("target")).await.unwrap();
        assert_eq!(usage.iter().map(csi::VolumeUsage::unit).collect::<Vec<_>>(), [Unit::Bytes, Unit::Inodes]);
        assert!(usage[0].used >= 1 << 20 && usage[0].total > usage[0].used && usage[0].available > 0);
        // The file system itself uses 11 inodes.
        assert_eq!(usage[1].total - usage[1].available, usage[1].used);
        assert_eq!(usage[1].used, 12);
        std::fs::create_dir(node.path("empty")).unwrap();
        for (nothing, growth) in [("empty", "nothing is mounted"), ("missing", "missing")] {
            refused(node.stats(node.text(nothing)).await, Code::NotFound, &["not a mount of this volume"]);
            refused(node.expand(node.text(nothing)).await, Code::NotFound, &[growth]);
        }
        refused(node.stats("some/path".to_owned()).await, Code::NotFound, &["some/path"]);
        refused(node.expand("some/path".to_owned()).await, Code::NotFound, &["relative"]);
        let other = Node::new(64 * MIB);
        refused(other.stats(node.text("target")).await, Code::NotFound, &[node.volume.as_str()]);
        refused(other.expand(node.text("target")).await, Code::NotFound, &[node.volume.as_str()]);
    });
}

/// A target that existed before the call is kept.
#[test]
fn failed_publish_removes_only_the_target_that_it_created() {
    with_staged_node(async |node| {
        let publish = || node.publish(node.publish_request(mount("ext4", &[])));
        // The kernel does not bind an unbindable mount to another path.
        mount_change(node.path("staging"), MountPropagationFlags::UNBINDABLE).unwrap();
        refused(publish().await, Code::Internal, &["a bind mount"]);
        assert!(!node.path("target").exists());
        std::fs::create_dir(node.path("target")).unwrap();
        refused(publish().await, Code::Internal, &["a bind mount"]);
        assert!(node.path("target").exists());
        mount_change(node.path("staging"), MountPropagationFlags::PRIVATE).unwrap();
        publish().await.unwrap();
        assert_eq!(node.mounts_at("target").await.len(), 1);
    });
}

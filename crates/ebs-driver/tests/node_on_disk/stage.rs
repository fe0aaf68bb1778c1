//! Tests NodeStageVolume and NodeUnstageVolume on real disks, each test in its own mount namespace.

use crate::growth::may_grow_mounted_ext;
use crate::prelude::*;
use crate::traced_tools::{THAT_CHANGE, real};

const SOURCE: &str = "ebs.csi.aws.com/source";
const SIZE: &str = "ebs.csi.aws.com/size-gib";

/// A repeated call changes nothing.
#[test]
fn blank_volume_is_formatted_and_mounted_once() {
    in_mount_namespace(|| async {
        for (fs_type, bytes) in [("", 64 * MIB), ("ext3", 64 * MIB), ("ext2", 64 * MIB), ("XFS", 600 * MIB)] {
            let node = Node::new(bytes);
            node.staged(fs_type).await;
            let mounts = node.mounts_at("staging").await;
            let kind = if fs_type.is_empty() { "ext4" } else { &fs_type.to_lowercase() };
            assert_eq!(mounts[0].fs_type, kind);
            std::fs::write(node.path("staging/file"), "kept").unwrap();
            node.staged(fs_type).await;
            assert_eq!(node.mounts_at("staging").await, mounts);
            assert_eq!(std::fs::read_to_string(node.path("staging/file")).unwrap(), "kept");
        }
    });
}

/// The volume may be restored from a snapshot or cloned from a volume.
#[test]
fn blank_restore_is_formatted_only_if_its_class_allows_it() {
    with_node(async |node| {
        for source in ["snapshot", "clone"] {
            let mut request = node.stage_request("ext4", &[]);
            request.publish_context.insert(SOURCE.to_owned(), source.to_owned());
            refused(node.stage(request.clone()).await, Code::FailedPrecondition, &[source, "formatBlankRestore"]);
            assert!(node.is_untouched());
        }
        let mut request = node.stage_request("ext4", &[]);
        request.publish_context.insert(SOURCE.to_owned(), "snapshot".to_owned());
        request.volume_context.insert("formatblankrestore".to_owned(), "true".to_owned());
        node.stage(request).await.unwrap();
    });
}

/// A partition is smaller than its volume but can be staged. An empty partition number means the whole disk.
#[test]
fn full_size_device_and_its_smaller_partition_are_staged() {
    in_mount_namespace(|| async {
        let whole = || Node::new(1024 * MIB);
        for (node, partition) in [(whole(), "0"), (whole(), ""), (Node::partitioned(1024 * MIB), "1")] {
            let mut request = node.stage_request("ext4", &[]);
            request.publish_context.insert(SIZE.to_owned(), "1".to_owned());
            request.volume_context.insert("partition".to_owned(), partition.to_owned());
            node.stage(request).await.expect("a staged volume");
            let source = node.mounts_at("staging").await[0].source.clone();
            let device = if partition == "1" { node.disk.partition(1) } else { node.disk.path().to_owned() };
            assert_eq!(std::path::Path::new(&source), device);
        }
    });
}

/// The clients cancel the first calls after 0 to 50 ms.
#[test]
fn repeated_stage_finds_one_file_system_and_one_mount() {
    with_node(async |node| {
        for milliseconds in [0, 1, 5, 20, 50] {
            let stage = node.stage(node.stage_request("ext4", &[]));
            let _left = tokio::time::timeout(Duration::from_millis(milliseconds), stage).await;
        }
        node.staged("ext4").await;
        let uuid = node.ext_uuid();
        node.staged("ext4").await;
        assert_eq!(node.ext_uuid(), uuid);
        assert_eq!(node.mounts_at("staging").await.len(), 1);
    });
}

async fn total(node: &Node) -> u64 {
    u64::try_from(node.stats(node.text("staging")).await.unwrap()[0].total).unwrap()
}

/// If the file system can grow while it is mounted, the next NodeStageVolume call grows it. Otherwise, the next call
/// that mounts the file system grows it.
#[test]
fn next_stage_finishes_an_unfinished_growth() {
    in_mount_namespace(|| async {
        for (fs_type, bytes) in [("ext4", 300 * MIB), ("xfs", 600 * MIB)] {
            let node = Node::new(bytes);
            node.staged(fs_type).await;
            std::fs::write(node.path("staging/file"), "kept").unwrap();
            node.disk.grow(2 * bytes).unwrap();
            node.staged(fs_type).await;
            if fs_type == "ext4" && !may_grow_mounted_ext() {
                node.unstage().await.unwrap();
                node.staged(fs_type).await;
            }
            assert!(total(&node).await > bytes, "{fs_type} has not grown");
            assert_eq!(node.mounts_at("staging").await.len(), 1);
            assert_eq!(std::fs::read_to_string(node.path("staging/file")).unwrap(), "kept");
        }
    });
}

/// A repeated call also removes an empty directory that a previous call left.
#[test]
fn unstage_removes_all_mounts_and_the_directory() {
    with_staged_node(async |node| {
        let staging = node.path("staging");
        rustix::mount::mount_bind(&staging, &staging).unwrap();
        assert_eq!(node.mounts_at("staging").await.len(), 2);
        node.unstage().await.unwrap();
        assert!(node.mounts_at("staging").await.is_empty() && !staging.exists());
        node.unstage().await.unwrap();
        std::fs::create_dir(&staging).unwrap();
        node.unstage().await.unwrap();
        assert!(!staging.exists());
        std::fs::create_dir(&staging).unwrap();
        std::fs::write(staging.join("file"), "of a person").unwrap();
        node.unstage().await.unwrap();
        assert_eq!(std::fs::read_to_string(staging.join("file")).unwrap(), "of a person");
    });
}

/// blkid runs once. Publish, unpublish and unstage run no program.
#[test]
fn plain_stage_of_a_clean_volume_starts_only_blkid() {
    in_mount_namespace(|| async {
        for (fs_type, bytes) in [("ext2", 64 * MIB), ("ext3", 64 * MIB), ("ext4", 64 * MIB), ("xfs", 320 * MIB)] {
            let node = Node::new(bytes);
            node.staged(fs_type).await;
            node.unstage().await.unwrap();
            let blkid = real(&node, "blkid");
            let mut scripts = vec![("blkid", blkid.as_str())];
            scripts.extend(THAT_CHANGE.map(|tool| (tool, "exit 9")));
            let tools = TracedTools::new(&node, &scripts);
            node.staged(fs_type).await;
            node.publish(node.publish_request(mount(fs_type, &[]))).await.unwrap();
            node.unpublish(node.text("target")).await.unwrap();
            node.unstage().await.unwrap();
            let started = tools.started();
            assert!(started.len() == 1 && started[0].starts_with("blkid "), "{fs_type}: {started:?}");
        }
    });
}

/// mount(8) accepts these flags for `-t ext4`. The volume is ext3, and the request asks for ext4.
#[test]
fn flags_for_ext4_are_accepted_for_an_ext3_volume() {
    with_node(async |node| {
        node.staged("ext3").await;
        std::fs::write(node.path("staging/file"), "kept").unwrap();
        node.unstage().await.unwrap();
        for flags in [["delalloc"], ["iversion"], ["noiversion"]] {
            node.stage(node.stage_request("ext4", &flags)).await.unwrap();
            node.stage(node.stage_request("ext4", &flags)).await.unwrap();
            assert_eq!(std::fs::read_to_string(node.path("staging/file")).unwrap(), "kept");
            node.unstage().await.unwrap();
        }
    });
}

/// The driver refuses a request that names another file system.
#[test]
fn request_without_a_file_system_mounts_the_existing_one() {
    in_mount_namespace(|| async {
        for (fs_type, other, bytes) in [("xfs", "ext4", 320 * MIB), ("ext3", "xfs", 64 * MIB)] {
            let node = Node::new(bytes);
            node.staged(fs_type).await;
            std::fs::write(node.path("staging/file"), "kept").unwrap();
            // The volume is already staged.
            node.staged("").await;
            node.unstage().await.unwrap();
            node.staged("").await;
            node.staged("").await;
            let staged = node.mounts_at("staging").await;
            assert_eq!((staged.len(), staged[0].fs_type.as_str()), (1, fs_type));
            let has_nouuid = staged[0].super_options.iter().any(|word| word == "nouuid");
            assert_eq!(has_nouuid, fs_type == "xfs");
            node.publish(node.publish_request(mount("", &[]))).await.unwrap();
            assert_eq!(std::fs::read_to_string(node.path("target/file")).unwrap(), "kept");
            let words = [fs_type, other];
            refused(node.stage(node.stage_request(other, &[])).await, Code::Unavailable, &words);
            refused(node.publish(node.publish_request(mount(other, &[]))).await, Code::AlreadyExists, &words);
            node.unpublish(node.text("target")).await.unwrap();
            node.unstage().await.unwrap();
            refused(node.stage(node.stage_request(other, &[])).await, Code::FailedPrecondition, &words);
        }
    });
}

/// The driver returns InvalidArgument. The message names only the rejected option and the file system.
#[test]
fn error_names_only_the_rejected_mount_option() {
    in_mount_namespace(|| async {
        for (fs_type, flags, wrong) in [
            ("ext4", &["tls"][..], "tls"),
            ("ext4", &["noatime", "discard", "dir_mode=0777"], "dir_mode=0777"),
            ("ext4", &["discard,errors=maybe"], "errors=maybe"),
            ("ext3", &["noatime", "nolock"], "nolock"),
            ("xfs", &["noatime", "nodiratime", "logbufs=8", "nobarrier", "largeio"], "nobarrier"),
        ] {
            let node = Node::new(if fs_type == "xfs" { 320 * MIB } else { 64 * MIB });
            let said =
                refused(node.stage(node.stage_request(fs_type, flags)).await, Code::InvalidArgument, &[wrong, fs_type]);
            let right: Vec<&str> =
                flags.iter().flat_map(|flag| flag.split(',')).filter(|flag| *flag != wrong).collect();
            for word in right.iter().chain(&["nouuid", "{", "["]) {
                assert!(!said.contains(word), "the error contains {word}: {said}");
            }
            assert!(node.mounts_at("staging").await.is_empty());
            node.stage(node.stage_request(fs_type, &right)).await.unwrap();
        }
    });
}

//! Staging and unstaging on real disks, each test in a mount namespace of its own.

use std::time::Duration;

use crate::growth::may_grow_mounted_ext;
use crate::log::Log;
use crate::node::{MIB, Node, block, mount, refused, with_node, with_staged_node};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::replaced_tool::ReplacedTool;
use tonic::Code;

const SOURCE: &str = "ebs.csi.aws.com/source";
const SIZE: &str = "ebs.csi.aws.com/size-gib";

/// A second stage with the same request changes nothing.
#[test]
fn a_blank_volume_is_formatted_and_mounted_and_a_second_stage_changes_nothing() {
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

#[test]
fn data_survives_unstage_and_stage() {
    with_staged_node(async |node| {
        let uuid = node.ext_uuid();
        std::fs::write(node.path("staging/file"), "kept").unwrap();
        node.unstage().await.unwrap();
        assert!(!node.path("staging").exists());
        node.staged("ext4").await;
        assert_eq!(node.ext_uuid(), uuid);
        assert_eq!(std::fs::read_to_string(node.path("staging/file")).unwrap(), "kept");
    });
}

/// xfs is mounted with nouuid, whether the request has that flag or not.
#[test]
fn xfs_is_mounted_with_nouuid_so_that_a_clone_can_be_beside_it() {
    in_mount_namespace(|| async {
        let node = Node::new(600 * MIB);
        for flags in [&[][..], &["nouuid"], &["nouuid,noatime"]] {
            node.stage(node.stage_request("XFS", flags)).await.unwrap();
            assert!(node.mounts_at("staging").await[0].super_options.iter().any(|word| word == "nouuid"));
            node.unstage().await.unwrap();
        }
    });
}

/// A stage that differs in file system or flags from the mount is refused, and the mount is not forgotten.
#[test]
fn a_stage_with_other_flags_than_the_mount_has_is_refused() {
    with_node(async |node| {
        node.stage(node.stage_request("ext4", &["noatime"])).await.unwrap();
        node.stage(node.stage_request("ext4", &["noatime"])).await.unwrap();
        refused(node.stage(node.stage_request("ext4", &["ro"])).await, Code::Unavailable, &["noatime", " ro"]);
        refused(node.stage(node.stage_request("xfs", &["noatime"])).await, Code::Unavailable, &["ext4", "xfs"]);
        assert_eq!(node.mounts_at("staging").await.len(), 1);
    });
}

/// Another file system than asked for is refused and both are named; ext2, ext3 and ext4 mount as found.
#[test]
fn another_file_system_than_asked_for_is_refused_and_both_are_named() {
    in_mount_namespace(|| async {
        let node = Node::new(600 * MIB);
        node.staged("ext4").await;
        let uuid = node.ext_uuid();
        node.unstage().await.unwrap();
        let volume = node.volume.to_string();
        refused(node.stage(node.stage_request("xfs", &[])).await, Code::FailedPrecondition, &["ext4", "xfs", &volume]);
        assert_eq!(node.ext_uuid(), uuid);
        assert!(node.mounts_at("staging").await.is_empty());
    });
}

#[test]
fn ntfs_is_refused_before_the_device_is_looked_at() {
    with_node(async |node| {
        refused(node.stage(node.stage_request("ntfs", &[])).await, Code::InvalidArgument, &["ntfs"]);
        assert!(node.is_untouched());
    });
}

/// A blank restore or clone is never formatted unless its class says so.
#[test]
fn a_blank_restore_is_never_formatted_unless_its_class_says_so() {
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

/// A blank volume is not formatted for a read-only mount.
#[test]
fn a_blank_volume_is_not_formatted_for_a_read_only_mount() {
    with_node(async |node| {
        refused(node.stage(node.stage_request("ext4", &["ro"])).await, Code::FailedPrecondition, &["read-only"]);
        assert!(node.is_untouched());
    });
}

/// A volume with unknown data is refused with its offset and how to go on.
#[test]
fn a_volume_with_data_that_nobody_knows_is_refused_with_the_place_of_it() {
    with_node(async |node| {
        node.disk.write_at(b"precious", 40_960).unwrap();
        let outcome = node.stage(node.stage_request("ext4", &[])).await;
        refused(outcome, Code::FailedPrecondition, &["40960", "not blank", "wipe"]);
        assert_eq!(node.disk.read_at(8, 40_960).unwrap(), b"precious");
    });
}

/// A device smaller than the volume is refused.
#[test]
fn a_device_smaller_than_the_volume_is_refused() {
    with_node(async |node| {
        let mut request = node.stage_request("ext4", &[]);
        request.publish_context.insert(SIZE.to_owned(), "1".to_owned());
        refused(node.stage(request).await, Code::FailedPrecondition, &["1 GiB", "67108864"]);
        assert!(node.is_untouched());
    });
}

/// A device as large as the volume is staged, and so is a partition, which is smaller than the volume.
#[test]
fn a_device_as_large_as_the_volume_is_staged_and_a_partition_of_it_too() {
    in_mount_namespace(|| async {
        for (node, partition) in [(Node::new(1024 * MIB), "0"), (Node::partitioned(1024 * MIB), "1")] {
            let mut request = node.stage_request("ext4", &[]);
            request.publish_context.insert(SIZE.to_owned(), "1".to_owned());
            request.volume_context.insert("partition".to_owned(), partition.to_owned());
            node.stage(request).await.expect("a staged volume");
            assert_eq!(node.mounts_at("staging").await.len(), 1);
            node.unstage().await.unwrap();
        }
    });
}

/// The mount at the staging path of a volume that is published stays, also when its file system cannot grow now.
#[test]
fn the_staging_mount_of_a_published_volume_stays_while_its_disk_grows() {
    in_mount_namespace(|| async {
        let node = Node::new(300 * MIB);
        node.staged("ext4").await;
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        node.disk.grow(600 * MIB).unwrap();
        let before = node.mounts_at("staging").await;
        let log = Log::listen();
        node.staged("ext4").await;
        assert_eq!(node.mounts_at("staging").await, before);
        // The kernel gives the number of a mount that is gone to the next: that it was mounted anew shows the log alone.
        assert_eq!(log.lines_with(&[" staged ", "fs=ext4"]), Vec::<String>::new());
        drop(log);
    });
}

/// A foreign mount at the staging path is neither covered nor taken away.
#[test]
fn a_foreign_mount_at_the_staging_path_is_neither_covered_nor_taken_away() {
    in_mount_namespace(|| async {
        let (node, other) = (Node::new(64 * MIB), Node::new(64 * MIB));
        let mut request = other.stage_request("ext4", &[]);
        request.staging_target_path = node.text("staging");
        other.stage(request).await.unwrap();
        refused(node.stage(node.stage_request("ext4", &[])).await, Code::Unavailable, &["another mount"]);
        refused(node.unstage().await, Code::FailedPrecondition, &[other.volume.as_str()]);
        assert_eq!(node.mounts_at("staging").await.len(), 1);
        assert!(node.is_untouched());
    });
}

/// A dropped stage request leaves one file system and one mount when it is sent again.
#[test]
fn a_client_that_leaves_in_the_middle_finds_one_file_system_when_it_calls_again() {
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

/// A file system smaller than its device is grown at stage, ext without CAP_SYS_RESOURCE before the mount.
#[test]
fn a_file_system_smaller_than_its_device_is_grown_while_it_is_staged() {
    in_mount_namespace(|| async {
        for (fs_type, bytes) in [("ext4", 300 * MIB), ("ext2", 300 * MIB), ("xfs", 600 * MIB)] {
            let node = Node::new(bytes);
            node.staged(fs_type).await;
            node.unstage().await.unwrap();
            node.disk.grow(2 * bytes).unwrap();
            node.staged(fs_type).await;
            assert!(total(&node).await > bytes, "{fs_type} has not grown");
        }
    });
}

async fn total(node: &Node) -> u64 {
    u64::try_from(node.stats(node.text("staging")).await.unwrap()[0].total).unwrap()
}

/// A growth that a former stage did not finish is finished by the next: by one that finds the mount where a mounted file
/// system may grow, and else by one that mounts.
#[test]
fn a_growth_that_a_former_stage_did_not_finish_is_finished_by_the_next() {
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

/// A read-only stage is not grown.
#[test]
fn a_read_only_stage_is_not_grown() {
    in_mount_namespace(|| async {
        let node = Node::new(300 * MIB);
        node.staged("ext4").await;
        node.unstage().await.unwrap();
        node.disk.grow(600 * MIB).unwrap();
        node.stage(node.stage_request("ext4", &["ro"])).await.unwrap();
        assert!(total(&node).await < 300 * MIB);
        assert!(node.mounts_at("staging").await[0].is_read_only());
    });
}

/// Staging paths that are relative, contain `..`, are links or hold something are refused.
#[test]
fn a_staging_path_that_cannot_be_one_is_refused_and_nothing_is_done() {
    with_node(async |node| {
        std::fs::create_dir(node.path("full")).unwrap();
        std::fs::write(node.path("full/file"), "mine").unwrap();
        std::os::unix::fs::symlink("full", node.path("link")).unwrap();
        let parent = format!("{}/../x", node.text("full"));
        for (path, code, word) in [
            ("staging".to_owned(), Code::InvalidArgument, "relative"),
            (parent, Code::InvalidArgument, ".."),
            (node.text("link"), Code::InvalidArgument, "symbolic link"),
            (node.text("full"), Code::FailedPrecondition, "not empty"),
        ] {
            let mut request = node.stage_request("ext4", &[]);
            request.staging_target_path = path;
            refused(node.stage(request).await, code, &[word]);
        }
        assert!(node.is_untouched());
        assert_eq!(std::fs::read_to_string(node.path("full/file")).unwrap(), "mine");
    });
}

/// A raw block volume needs no staging and unstages without a trace.
#[test]
fn a_raw_block_volume_is_not_staged_and_unstages_without_a_trace() {
    with_node(async |node| {
        let mut request = node.stage_request("ext4", &[]);
        request.volume_capability = Some(block());
        node.stage(request).await.unwrap();
        assert!(!node.path("staging").exists() && node.is_untouched());
        node.unstage().await.unwrap();
    });
}

/// A volume that is not on this machine is NotFound.
#[test]
fn a_volume_that_is_not_here_is_not_found() {
    with_node(async |node| {
        for id in ["vol-0123456789abcdef0", "no-volume"] {
            let mut request = node.stage_request("ext4", &[]);
            request.volume_id = id.to_owned();
            refused(node.stage(request).await, Code::NotFound, &[id]);
        }
    });
}

/// Unstage takes all mounts away, and with a repeat the directory that a call before it has left.
#[test]
fn unstage_takes_all_mounts_and_the_directory_away() {
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
    });
}

/// A volume in use is not unstaged.
#[test]
fn a_volume_in_use_is_not_unstaged() {
    with_staged_node(async |node| {
        let open = std::fs::File::create(node.path("staging/file")).unwrap();
        refused(node.unstage().await, Code::FailedPrecondition, &["in use"]);
        drop(open);
        node.unstage().await.unwrap();
    });
}

#[test]
fn a_format_option_for_another_file_system_is_refused() {
    with_node(async |node| {
        let mut request = node.stage_request("ext4", &[]);
        request.volume_capability = Some(mount("xfs", &[]));
        request.volume_context.insert("numberofinodes".to_owned(), "100".to_owned());
        refused(node.stage(request).await, Code::InvalidArgument, &["numberofinodes", "xfs"]);
    });
}

/// A plain stage of a clean volume starts no child but blkid, and that once; publish, unpublish and unstage start none.
#[test]
fn a_plain_stage_of_a_clean_volume_starts_no_child_but_blkid() {
    in_mount_namespace(|| async {
        for (fs_type, bytes) in [("ext2", 64 * MIB), ("ext3", 64 * MIB), ("ext4", 64 * MIB), ("xfs", 320 * MIB)] {
            let node = Node::new(bytes);
            node.staged(fs_type).await;
            node.unstage().await.unwrap();
            // In this namespace every tool that is started says so, and what is not blkid ends with an error.
            let trace = node.path("started");
            let says = |tool: &str, then: &str| {
                ReplacedTool::by_script(tool, &format!("echo {tool} >> {}\n{then}", trace.display())).unwrap()
            };
            let own_blkid = node.path("blkid");
            std::fs::copy("/usr/sbin/blkid", &own_blkid).unwrap();
            let mut replaced = vec![says("blkid", &format!("exec {} \"$@\"", own_blkid.display()))];
            replaced
                .extend(["e2fsck", "mke2fs", "mkfs.xfs", "resize2fs", "xfs_growfs"].map(|tool| says(tool, "exit 9")));
            node.staged(fs_type).await;
            node.publish(node.publish_request(mount(fs_type, &[]))).await.unwrap();
            node.unpublish(node.text("target")).await.unwrap();
            node.unstage().await.unwrap();
            assert_eq!(std::fs::read_to_string(&trace).unwrap(), "blkid\n", "{fs_type}");
            drop(replaced);
        }
    });
}

/// A volume attribute of the driver's that nothing heeds is said in the log: the file system is the one of fsType.
#[test]
fn a_volume_attribute_that_nothing_heeds_is_said_in_the_log() {
    with_node(async |node| {
        let log = Log::listen();
        let mut request = node.stage_request("", &[]);
        request.volume_context.insert("ebs.csi.aws.com/fsType".to_owned(), "xfs".to_owned());
        request.volume_context.insert("storage.kubernetes.io/csiProvisionerIdentity".to_owned(), "x".to_owned());
        node.stage(request).await.unwrap();
        assert_eq!(node.mounts_at("staging").await[0].fs_type, "ext4");
        let said = log.lines_with(&["WARN", "has no effect"]);
        assert!(said.len() == 1 && said[0].contains("ebs.csi.aws.com/fsType"), "{said:?}");
    });
}

/// Flags that mount(8) takes for `-t ext4` are taken, also of a volume that was made as ext3 and is asked for as ext4.
#[test]
fn flags_for_ext4_are_taken_of_a_volume_that_was_made_as_ext3() {
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

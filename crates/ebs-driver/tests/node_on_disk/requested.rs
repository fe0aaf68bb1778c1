//! Requests compared with the disk: file systems and mount options.

use crate::node::{MIB, Node, mount, refused};
use ebs_testkit::mount_namespace::in_mount_namespace;
use tonic::Code;

/// A request that names another file system is refused.
#[test]
fn request_without_a_file_system_mounts_the_existing_one() {
    in_mount_namespace(|| async {
        for (fs_type, other, bytes) in [("xfs", "ext4", 320 * MIB), ("ext3", "xfs", 64 * MIB)] {
            let node = Node::new(bytes);
            node.staged(fs_type).await;
            std::fs::write(node.path("staging/file"), "kept").unwrap();
            // It is already staged.
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

/// The code is InvalidArgument. The message names only the rejected option and the file system.
#[test]
fn rejected_mount_option_is_named_alone() {
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
            node.unstage().await.unwrap();
        }
    });
}

//! Codes of NodeStageVolume. After a code that the kubelet treats as final, it forgets the volume, so nothing may be
//! mounted then.

use csi_proto::csi;
use ebs_testkit::kubelet::is_final;
use ebs_testkit::mount_namespace::in_mount_namespace;

use crate::node::{MIB, Node, block, with_staged_node};
use crate::traced_tools::TracedTools;

/// Returns requests that fail, with names.
fn that_fail(node: &Node) -> Vec<(&'static str, csi::NodeStageVolumeRequest)> {
    let with = |change: &dyn Fn(&mut csi::NodeStageVolumeRequest)| {
        let mut request = node.stage_request("ext4", &[]);
        change(&mut request);
        request
    };
    vec![
        ("other flags", node.stage_request("ext4", &["noatime"])),
        ("another file system", node.stage_request("xfs", &[])),
        ("an invalid flag", node.stage_request("ext4", &["loop"])),
        ("an unsupported file system", node.stage_request("ntfs", &[])),
        ("no capability", with(&|request| request.volume_capability = None)),
        ("no volume", with(&|request| request.volume_id = String::new())),
        ("an invalid volume", with(&|request| request.volume_id = "no-volume".to_owned())),
        ("a volume that is not here", with(&|request| request.volume_id = "vol-0123456789abcdef0".to_owned())),
        (
            "a partition that is not here",
            with(&|request| drop(request.volume_context.insert("partition".to_owned(), "7".to_owned()))),
        ),
        (
            "an invalid partition",
            with(&|request| drop(request.volume_context.insert("partition".to_owned(), "x".to_owned()))),
        ),
    ]
}

/// After the unmount, the codes are final again, so that an error in a request is reported.
#[test]
fn stage_code_is_never_final_while_the_path_is_mounted() {
    with_staged_node(async |node| {
        for (name, request) in that_fail(node) {
            let status = node.stage(request).await.expect_err(name);
            assert!(!is_final(status.code()), "{name}: {status:?}");
            assert_eq!(node.mounts_at("staging").await.len(), 1, "{name}");
        }
        node.unstage().await.unwrap();
        for (name, request) in that_fail(node) {
            // Without a mount, no flags can differ from the request.
            if name != "other flags" {
                let status = node.stage(request).await.expect_err(name);
                assert!(is_final(status.code()), "{name}: {status:?}");
            }
        }
    });
}

/// The disk of a staged volume is missing, but its mount is not.
#[test]
fn stage_without_its_disk_has_no_final_code() {
    with_staged_node(async |node| {
        let empty = node.path("no-disks");
        std::fs::create_dir(&empty).unwrap();
        let blind = node.again(|config| config.simulated_devices = Some(empty));
        let status = blind.stage(node.stage_request("ext4", &[])).await.unwrap_err();
        assert!(!is_final(status.code()), "{status:?}");
        assert!(status.message().contains("no disk of this machine"), "{status:?}");
    });
}

/// The kubelet must not forget the mount of the stage.
#[test]
fn failure_after_the_mount_is_not_final() {
    in_mount_namespace(|| async {
        let node = Node::new(320 * MIB);
        node.staged("xfs").await;
        node.unstage().await.unwrap();
        node.disk.grow(640 * MIB).unwrap();
        let _tools = TracedTools::that_fail(&node);
        for _ in 0..2 {
            let answer = node.stage(node.stage_request("xfs", &[])).await;
            assert_eq!(node.mounts_at("staging").await.len(), 1, "{answer:?}");
        }
        // A raw device at the staging path is also a mount.
        let other = Node::new(MIB);
        std::fs::write(node.path("raw"), "").unwrap();
        rustix::mount::mount_bind(other.disk.path(), node.path("raw")).unwrap();
        let mut request = other.stage_request("ext4", &[]);
        request.staging_target_path = node.text("raw");
        assert!(!is_final(other.stage(request.clone()).await.unwrap_err().code()));
        // A raw block volume is not staged, so it has no mount there.
        request.volume_capability = Some(block());
        other.stage(request).await.unwrap();
    });
}

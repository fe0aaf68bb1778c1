//! Codes of NodeStageVolume and NodePublishVolume. After a code that the kubelet treats as final, it forgets the volume or
//! the mount at the target path, so nothing may be mounted then.

use csi_proto::csi;
use ebs_testkit::kubelet::is_final;
use ebs_testkit::mount_namespace::{in_mount_namespace, unmount};
use rustix::mount::mount_bind;
use tonic::Code;

use crate::dead_mounts::shut_down;
use crate::node::{MIB, Node, block, mount, with_staged_node};
use crate::traced_tools::TracedTools;

/// Returns requests that fail, with names.
fn stages_that_fail(node: &Node) -> Vec<(&'static str, csi::NodeStageVolumeRequest)> {
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
        for (name, request) in stages_that_fail(node) {
            let status = node.stage(request).await.expect_err(name);
            assert!(!is_final(status.code()), "{name}: {status:?}");
            assert_eq!(node.mounts_at("staging").await.len(), 1, "{name}");
        }
        node.unstage().await.unwrap();
        for (name, request) in stages_that_fail(node) {
            // Without a mount, no flags can differ from the request.
            if name != "other flags" {
                let status = node.stage(request).await.expect_err(name);
                assert!(is_final(status.code()), "{name}: {status:?}");
            }
        }
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

/// Returns requests that fail for every mount, with names.
fn publishes_that_fail(node: &Node) -> Vec<(&'static str, csi::NodePublishVolumeRequest)> {
    let with = |change: &dyn Fn(&mut csi::NodePublishVolumeRequest)| {
        let mut request = node.publish_request(mount("ext4", &[]));
        change(&mut request);
        request
    };
    vec![
        ("an invalid flag", node.publish_request(mount("ext4", &["loop"]))),
        ("an unsupported file system", node.publish_request(mount("ntfs", &[]))),
        ("no capability", with(&|request| request.volume_capability = None)),
        ("no volume", with(&|request| request.volume_id = String::new())),
        ("no staging path", with(&|request| request.staging_target_path = String::new())),
        ("another staging path", with(&|request| request.staging_target_path = node.text("nowhere"))),
    ]
}

/// After the unmount, the codes are final again.
#[test]
fn publish_code_is_never_final_while_the_target_is_mounted() {
    with_staged_node(async |node| {
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        for (name, request) in publishes_that_fail(node) {
            let status = node.publish(request).await.expect_err(name);
            assert!(!is_final(status.code()), "{name}: {status:?}");
            assert_eq!(node.mounts_at("target").await.len(), 1, "{name}");
        }
        node.unpublish(node.text("target")).await.unwrap();
        for (name, request) in publishes_that_fail(node) {
            let status = node.publish(request).await.expect_err(name);
            assert!(is_final(status.code()), "{name}: {status:?}");
        }
    });
}

/// The request is repeated after the file system died or was unmounted from the staging path.
#[test]
fn repeated_publish_never_returns_a_final_code() {
    in_mount_namespace(|| async {
        for fs in ["ext4", "xfs"] {
            let node = Node::new(320 * MIB);
            node.staged(fs).await;
            let publish = || node.publish(node.publish_request(mount(fs, &[])));
            publish().await.unwrap();
            shut_down(&node, "staging");
            let dead = publish().await.unwrap_err();
            unmount(node.path("staging")).await;
            let unstaged = publish().await.unwrap_err();
            for status in [dead, unstaged] {
                assert!(!is_final(status.code()), "{fs}: {status:?}");
            }
            assert_eq!(node.mounts_at("target").await.len(), 1);
            node.unpublish(node.text("target")).await.unwrap();
            node.unstage().await.unwrap();
        }
    });
}

/// Another volume is mounted over the mount of this volume, which the kubelet must not forget either.
#[test]
fn code_is_not_final_while_the_mount_is_covered() {
    in_mount_namespace(|| async {
        let (node, other) = (Node::new(64 * MIB), Node::new(64 * MIB));
        for of in [&node, &other] {
            of.staged("ext4").await;
        }
        let publish = || node.publish(node.publish_request(mount("ext4", &[])));
        publish().await.unwrap();
        mount_bind(other.path("staging"), node.path("target")).unwrap();
        let status = publish().await.unwrap_err();
        assert!(!is_final(status.code()), "{status:?}");
        unmount(node.path("target")).await;
        publish().await.unwrap();
        node.unpublish(node.text("target")).await.unwrap();
        // The other volume alone at the target is reported as a foreign mount.
        std::fs::create_dir(node.path("target")).unwrap();
        mount_bind(other.path("staging"), node.path("target")).unwrap();
        let request = node.publish_request(mount("ext4", &[]));
        let status = node.publish_over_foreign(request).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        unmount(node.path("target")).await;
    });
}

/// The disk of a mounted volume is missing, but its mount is not.
#[test]
fn stage_or_publish_without_its_disk_has_no_final_code() {
    in_mount_namespace(|| async {
        for is_raw in [false, true] {
            let node = Node::new(64 * MIB);
            let empty = node.path("no-disks");
            std::fs::create_dir(&empty).unwrap();
            let blind = node.again(|config| config.simulated_devices = Some(empty));
            let outcome = if is_raw {
                node.publish(node.publish_request(block())).await.unwrap();
                blind.publish(node.publish_request(block())).await
            } else {
                node.staged("ext4").await;
                blind.stage(node.stage_request("ext4", &[])).await
            };
            let status = outcome.unwrap_err();
            assert!(!is_final(status.code()), "{status:?}");
            assert!(status.message().contains("no disk of this machine"), "{status:?}");
        }
    });
}

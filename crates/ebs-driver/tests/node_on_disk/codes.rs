//! Tests the codes of NodeStageVolume and NodePublishVolume. After a code that it treats as final, the kubelet forgets
//! the volume or the mount at the target path. The driver must not return such a code while something is mounted.

use ebs_testkit::kubelet::is_final;
use rustix::mount::mount_bind;

use crate::prelude::*;

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

/// Once the path is unmounted, codes are final again, so that the orchestrator reports an error in the request.
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
            // Without a mount, there are no other flags with which the request could conflict, so the call succeeds.
            if name != "other flags" {
                let status = node.stage(request).await.expect_err(name);
                assert!(is_final(status.code()), "{name}: {status:?}");
            }
        }
    });
}

/// A NodeStageVolume request for a raw block volume mounts nothing, so it succeeds even with a raw device at the path.
#[test]
fn stage_code_is_not_final_while_a_raw_device_is_at_the_path() {
    with_node(async |node| {
        std::fs::write(node.path("staging"), "").unwrap();
        mount_bind(node.disk.path(), node.path("staging")).unwrap();
        let mut request = node.stage_request("ext4", &[]);
        assert!(!is_final(node.stage(request.clone()).await.unwrap_err().code()));
        request.volume_capability = Some(block());
        node.stage(request).await.unwrap();
    });
}

/// Returns NodePublishVolume requests that fail, whatever is mounted, and their names.
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

/// Even while the file system is mounted only at the target, the error codes of NodePublishVolume are not final. After
/// the unmount, they are final again.
#[test]
fn publish_code_is_never_final_while_the_target_is_mounted() {
    with_staged_node(async |node| {
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        for (name, request) in publishes_that_fail(node) {
            let status = node.publish(request).await.expect_err(name);
            assert!(!is_final(status.code()), "{name}: {status:?}");
            assert_eq!(node.mounts_at("target").await.len(), 1, "{name}");
        }
        unmount(node.path("staging")).await;
        let status = node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap_err();
        assert!(!is_final(status.code()), "{status:?}");
        node.unpublish(node.text("target")).await.unwrap();
        for (name, request) in publishes_that_fail(node) {
            let status = node.publish(request).await.expect_err(name);
            assert!(is_final(status.code()), "{name}: {status:?}");
        }
    });
}

/// Another volume is mounted over this volume's mount. The kubelet must not forget the covered mount.
#[test]
fn code_is_not_final_while_another_mount_covers_the_volume() {
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
    });
}

/// The disk of a mounted volume has vanished, but its mount still exists.
#[test]
fn stage_or_publish_of_a_vanished_disk_has_no_final_code() {
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

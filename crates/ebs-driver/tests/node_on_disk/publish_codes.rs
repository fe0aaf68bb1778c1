//! Codes of NodePublishVolume. After a code that the kubelet takes as final it forgets the mount at the target path: it never
//! unpublishes, and the volume can never be unstaged.

use csi_proto::csi;
use ebs_testkit::kubelet::is_final;
use ebs_testkit::mount_namespace::{in_mount_namespace, unmount};
use rustix::mount::mount_bind;
use tonic::Code;

use crate::corrupted::shut_down;
use crate::node::{MIB, Node, block, mount, with_staged_node};

/// Requests that fail whatever is mounted, by name.
fn that_fail(node: &Node) -> Vec<(&'static str, csi::NodePublishVolumeRequest)> {
    let with = |change: &dyn Fn(&mut csi::NodePublishVolumeRequest)| {
        let mut request = node.publish_request(mount("ext4", &[]));
        change(&mut request);
        request
    };
    vec![
        ("a flag that is none", node.publish_request(mount("ext4", &["loop"]))),
        ("a file system that is none", node.publish_request(mount("ntfs", &[]))),
        ("no capability", with(&|request| request.volume_capability = None)),
        ("no volume", with(&|request| request.volume_id = String::new())),
        ("no staging path", with(&|request| request.staging_target_path = String::new())),
        ("another staging path", with(&|request| request.staging_target_path = node.text("nowhere"))),
    ]
}

/// Whatever is wrong, no code is final while the volume is mounted at the target. When it is unmounted, they are final again.
#[test]
fn no_publish_code_is_final_while_the_target_is_a_mount() {
    with_staged_node(async |node| {
        node.publish(node.publish_request(mount("ext4", &[]))).await.unwrap();
        for (name, request) in that_fail(node) {
            let status = node.publish(request).await.expect_err(name);
            assert!(!is_final(status.code()), "{name}: {status:?}");
            assert_eq!(node.mounts_at("target").await.len(), 1, "{name}");
        }
        node.unpublish(node.text("target")).await.unwrap();
        for (name, request) in that_fail(node) {
            let status = node.publish(request).await.expect_err(name);
            assert!(is_final(status.code()), "{name}: {status:?}");
        }
    });
}

/// The equal request, repeated after the file system died or was unmounted from the staging path.
#[test]
fn a_repeated_publish_never_gives_up_its_mount() {
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

/// A mount of the volume below the mount of another volume is one that the kubelet must not forget either.
#[test]
fn a_covered_mount_of_the_volume_is_not_given_up() {
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
        // Alone there, the other volume is reported as what it is.
        std::fs::create_dir(node.path("target")).unwrap();
        mount_bind(other.path("staging"), node.path("target")).unwrap();
        let request = node.publish_request(mount("ext4", &[]));
        let status = node.publish_over_foreign(request).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        unmount(node.path("target")).await;
    });
}

/// A raw device whose disk cannot be found any more stays known, too.
#[test]
fn a_publish_that_finds_no_disk_does_not_give_up_the_raw_mount() {
    in_mount_namespace(|| async {
        let node = Node::new(MIB);
        node.publish(node.publish_request(block())).await.unwrap();
        let empty = node.path("no-disks");
        std::fs::create_dir(&empty).unwrap();
        let blind = node.again(|config| config.simulated_devices = Some(empty));
        let status = ebs_testkit::kubelet::publish(&blind, node.publish_request(block())).await.unwrap_err();
        assert!(!is_final(status.code()), "{status:?}");
        assert!(status.message().contains("no disk of this machine"), "{status:?}");
        node.unpublish(node.text("target")).await.unwrap();
    });
}

//! Node-local volumes: the handle names a device, which is another volume on each node.

use csi_proto::csi;
use csi_proto::csi::node_server::Node as _;
use csi_proto::csi::volume_capability::access_mode::Mode;
use tonic::{Code, Request};

use crate::log::Log;
use crate::node::{MIB, Node, block, context, mount, refused, with_node};

const HANDLE: &str = "local-ebs://dev/xvdbz";

/// Returns the controller's publish context: the device in the handle, and the volume that EC2 lists there.
fn publish_context(node: &Node) -> std::collections::HashMap<String, String> {
    context(&[("devicePath", "/dev/xvdbz"), ("volumeID", node.volume.as_str())])
}

fn for_several_nodes(mut capability: csi::VolumeCapability) -> Option<csi::VolumeCapability> {
    if let Some(mode) = &mut capability.access_mode {
        mode.mode = Mode::MultiNodeMultiWriter.into();
    }
    Some(capability)
}

fn stage_request(node: &Node) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest {
        volume_id: HANDLE.to_owned(),
        publish_context: publish_context(node),
        volume_capability: for_several_nodes(mount("ext4", &[])),
        ..node.stage_request("ext4", &[])
    }
}

fn publish_request(node: &Node, target: &str, capability: csi::VolumeCapability) -> csi::NodePublishVolumeRequest {
    csi::NodePublishVolumeRequest {
        volume_id: HANDLE.to_owned(),
        publish_context: publish_context(node),
        target_path: node.text(target),
        volume_capability: for_several_nodes(capability.clone()),
        ..node.publish_request(capability)
    }
}

async fn unpublish(node: &Node, target: &str) {
    let request = csi::NodeUnpublishVolumeRequest { volume_id: HANDLE.to_owned(), target_path: node.text(target) };
    node.service.node_unpublish_volume(Request::new(request)).await.expect("an unpublished volume");
}

async fn unstage(node: &Node) {
    let request =
        csi::NodeUnstageVolumeRequest { volume_id: HANDLE.to_owned(), staging_target_path: node.text("staging") };
    node.service.node_unstage_volume(Request::new(request)).await.expect("an unstaged volume");
}

async fn total(node: &Node, path: &str) -> i64 {
    let request = csi::NodeGetVolumeStatsRequest {
        volume_id: HANDLE.to_owned(),
        volume_path: node.text(path),
        ..csi::NodeGetVolumeStatsRequest::default()
    };
    let reply = node.service.node_get_volume_stats(Request::new(request)).await.expect("statistics").into_inner();
    reply.usage[0].total
}

/// It is formatted when it is blank, measured and unstaged. When it is staged again, it has the same data.
#[test]
fn node_local_volume_is_staged_once_for_several_pods() {
    with_node(async |node| {
        for round in 0..2 {
            node.stage(stage_request(node)).await.unwrap();
            node.stage(stage_request(node)).await.unwrap();
            assert_eq!(node.mounts_at("staging").await.len(), 1);
            for target in ["one", "two"] {
                node.publish(publish_request(node, target, mount("ext4", &[]))).await.unwrap();
            }
            let file = node.path("two/file");
            if round == 0 {
                std::fs::write(node.path("one/file"), "kept").unwrap();
            }
            assert_eq!(std::fs::read_to_string(file).unwrap(), "kept");
            assert!(total(node, "one").await > 0);
            for target in ["one", "two"] {
                unpublish(node, target).await;
            }
            unstage(node).await;
            assert!(!node.path("staging").exists() && !node.path("one").exists());
        }
    });
}

#[test]
fn node_local_volume_is_published_raw() {
    with_node(async |node| {
        let stage =
            csi::NodeStageVolumeRequest { volume_capability: for_several_nodes(block()), ..stage_request(node) };
        node.stage(stage).await.unwrap();
        node.publish(publish_request(node, "raw", block())).await.unwrap();
        assert_eq!(total(node, "raw").await, i64::try_from(64 * MIB).unwrap());
        node.disk.grow(128 * MIB).unwrap();
        // Without a capability, the file at the path shows that the volume is raw.
        let expand = csi::NodeExpandVolumeRequest {
            volume_id: HANDLE.to_owned(),
            volume_path: node.text("raw"),
            ..csi::NodeExpandVolumeRequest::default()
        };
        let grown = node.service.node_expand_volume(Request::new(expand)).await.expect("a larger device").into_inner();
        assert_eq!(grown.capacity_bytes, i64::try_from(128 * MIB).unwrap());
        unpublish(node, "raw").await;
        unstage(node).await;
    });
}

/// Its mount identifies the volume.
#[test]
fn node_local_volume_grows_with_its_device() {
    with_node(async |node| {
        let request = csi::NodeStageVolumeRequest {
            volume_capability: for_several_nodes(mount("ext4", &[])),
            ..stage_request(node)
        };
        node.stage(request.clone()).await.unwrap();
        node.publish(publish_request(node, "target", mount("ext4", &[]))).await.unwrap();
        let before = total(node, "target").await;
        node.disk.grow(128 * MIB).unwrap();
        let expand = |path: &str| csi::NodeExpandVolumeRequest {
            volume_id: HANDLE.to_owned(),
            volume_path: node.text(path),
            volume_capability: for_several_nodes(mount("ext4", &[])),
            ..csi::NodeExpandVolumeRequest::default()
        };
        let grown = node.service.node_expand_volume(Request::new(expand("target"))).await;
        match grown {
            Ok(reply) => {
                assert_eq!(reply.into_inner().capacity_bytes, i64::try_from(128 * MIB).unwrap());
                assert!(total(node, "target").await > before);
            }
            // Where a mounted ext file system may not grow, the error for this volume reports that.
            Err(status) => {
                assert!(status.message().contains("CAP_SYS_RESOURCE"), "{status}");
            }
        }
        std::fs::create_dir(node.path("elsewhere")).unwrap();
        let nothing = node.service.node_expand_volume(Request::new(expand("elsewhere"))).await;
        refused(nothing, Code::NotFound, &[HANDLE]);
    });
}

/// The controller names another volume.
#[test]
fn node_local_handle_is_only_the_volume_of_the_controller() {
    with_node(async |node| {
        let mut request = stage_request(node);
        request.publish_context.insert("volumeID".to_owned(), "vol-0123456789abcdef0".to_owned());
        let said = refused(node.stage(request).await, Code::NotFound, &["vol-0123456789abcdef0", HANDLE]);
        assert!(!said.contains(node.volume.as_str()), "{said}");
        assert!(node.is_untouched());
        let mut silent = stage_request(node);
        silent.publish_context.remove("volumeID");
        refused(node.stage(silent).await, Code::InvalidArgument, &["volumeID", HANDLE]);
    });
}

/// The log reports this. The file system comes from `csi.fsType`.
#[test]
fn volume_attribute_for_the_fs_type_has_no_effect() {
    with_node(async |node| {
        let mut request = stage_request(node);
        request.volume_context = context(&[("ebs.csi.aws.com/fsType", "xfs")]);
        request.volume_capability = for_several_nodes(mount("", &[]));
        let log = Log::listen();
        node.stage(request).await.unwrap();
        assert_eq!(node.mounts_at("staging").await[0].fs_type, "ext4");
        assert_eq!(log.lines_with(&["WARN", "ebs.csi.aws.com/fsType"]).len(), 1);
        unstage(node).await;
    });
}

//! Tests node-local volumes: the handle names a device, and each node has its own volume at that device.

use csi_proto::csi::volume_capability::access_mode::Mode;

use crate::growth::may_grow_mounted_ext;
use crate::prelude::*;

const HANDLE: &str = "local-ebs://dev/xvdbz";

/// Returns the controller's publish context: the device in the handle, and the volume that EC2 lists at that device.
fn publish_context(node: &Node) -> std::collections::HashMap<String, String> {
    context(&[("devicePath", "/dev/xvdbz"), ("volumeID", node.volume.as_str())])
}

fn for_several_nodes(mut capability: csi::VolumeCapability) -> Option<csi::VolumeCapability> {
    if let Some(mode) = &mut capability.access_mode {
        mode.mode = Mode::MultiNodeMultiWriter.into();
    }
    Some(capability)
}

pub(crate) fn stage_request(node: &Node, capability: csi::VolumeCapability) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest {
        volume_id: HANDLE.to_owned(),
        publish_context: publish_context(node),
        volume_capability: for_several_nodes(capability),
        ..node.stage_request("ext4", &[])
    }
}

pub(crate) fn publish_request(
    node: &Node,
    target: &str,
    capability: csi::VolumeCapability,
) -> csi::NodePublishVolumeRequest {
    csi::NodePublishVolumeRequest {
        volume_id: HANDLE.to_owned(),
        publish_context: publish_context(node),
        target_path: node.text(target),
        volume_capability: for_several_nodes(capability.clone()),
        ..node.publish_request(capability)
    }
}

pub(crate) fn as_local(node: &Node) -> Calls {
    Calls { handle: HANDLE.to_owned(), ..node.calls.clone() }
}

async fn total(local: &Calls, path: &str) -> i64 {
    local.stats(local.text(path)).await.expect("statistics")[0].total
}

/// The driver formats the blank volume, reports its usage and unstages it. When it is staged again, it has the same
/// data.
#[test]
fn node_local_volume_is_staged_once_for_several_pods() {
    with_node(async |node| {
        let local = as_local(node);
        for round in 0..2 {
            node.stage(stage_request(node, mount("ext4", &[]))).await.unwrap();
            node.stage(stage_request(node, mount("ext4", &[]))).await.unwrap();
            assert_eq!(node.mounts_at("staging").await.len(), 1);
            for target in ["one", "two"] {
                node.publish(publish_request(node, target, mount("ext4", &[]))).await.unwrap();
            }
            let file = node.path("two/file");
            if round == 0 {
                std::fs::write(node.path("one/file"), "kept").unwrap();
            }
            assert_eq!(std::fs::read_to_string(file).unwrap(), "kept");
            assert!(total(&local, "one").await > 0);
            for target in ["one", "two"] {
                local.unpublish(node.text(target)).await.unwrap();
            }
            local.unstage().await.unwrap();
            assert!(!node.path("staging").exists() && !node.path("one").exists());
        }
    });
}

/// The test expands the volume first as a raw device, and then as a mounted file system.
#[test]
fn node_local_volume_grows_with_its_device() {
    with_node(async |node| {
        let local = as_local(node);
        node.stage(stage_request(node, block())).await.unwrap();
        node.publish(publish_request(node, "raw", block())).await.unwrap();
        assert_eq!(total(&local, "raw").await, i64::try_from(64 * MIB).unwrap());
        node.disk.grow(128 * MIB).unwrap();
        // The request has no volume capability. The file at the path shows that the volume is raw.
        assert_eq!(local.expand(node.text("raw")).await.unwrap(), i64::try_from(128 * MIB).unwrap());
        local.unpublish(node.text("raw")).await.unwrap();
        local.unstage().await.unwrap();
        node.stage(stage_request(node, mount("ext4", &[]))).await.unwrap();
        let before = total(&local, "staging").await;
        node.disk.grow(192 * MIB).unwrap();
        match local.expand(node.text("staging")).await {
            Ok(bytes) => {
                assert_eq!(bytes, i64::try_from(192 * MIB).unwrap());
                assert!(total(&local, "staging").await > before);
            }
            // If the driver cannot grow the mounted ext file system, the error names the missing capability.
            Err(status) => {
                assert!(!may_grow_mounted_ext() && status.message().contains("CAP_SYS_RESOURCE"), "{status}");
            }
        }
        std::fs::create_dir(node.path("elsewhere")).unwrap();
        refused(local.expand(node.text("elsewhere")).await, Code::NotFound, &[HANDLE]);
    });
}

/// The context does not name the disk's volume, so the driver refuses to stage the disk.
#[test]
fn node_local_handle_stages_only_the_volume_in_the_context() {
    with_node(async |node| {
        let mut request = stage_request(node, mount("ext4", &[]));
        request.publish_context.insert("volumeID".to_owned(), "vol-0123456789abcdef0".to_owned());
        let said = refused(node.stage(request).await, Code::NotFound, &["vol-0123456789abcdef0", HANDLE]);
        assert!(!said.contains(node.volume.as_str()), "{said}");
        assert!(node.is_untouched());
        let mut silent = stage_request(node, mount("ext4", &[]));
        silent.publish_context.remove("volumeID");
        refused(node.stage(silent).await, Code::InvalidArgument, &["volumeID", HANDLE]);
    });
}

/// The log reports that the attribute is ignored. `csi.fsType` determines the file system.
#[test]
fn volume_attribute_for_the_fs_type_has_no_effect() {
    with_node(async |node| {
        let mut request = stage_request(node, mount("", &[]));
        request.volume_context = context(&[("ebs.csi.aws.com/fsType", "xfs")]);
        let log = Log::listen();
        node.stage(request).await.unwrap();
        assert_eq!(node.mounts_at("staging").await[0].fs_type, "ext4");
        assert_eq!(log.lines_with(&["WARN", "ebs.csi.aws.com/fsType"]).len(), 1);
    });
}

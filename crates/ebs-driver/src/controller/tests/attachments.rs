use ebs_sim::faults::{Effect, Rule};

use super::*;

/// A repeat has the same publish context.
#[tokio::test(start_paused = true)]
async fn publish_context_has_device_size_source_and_attach_time() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let context = world.publish(&volume, world.here.as_str()).await.expect("attached");
    assert!(context["devicePath"].starts_with("/dev/xvd"), "{context:?}");
    assert_eq!(context["ebs.csi.aws.com/source"], "none");
    assert_eq!(context["ebs.csi.aws.com/size-gib"], "4");
    humantime::parse_rfc3339(&context["ebs.csi.aws.com/attach-time"]).expect("a time");
    assert_eq!(context.len(), 4);
    let again = world.publish(&volume, world.here.as_str()).await.expect("is attached");
    assert_eq!(again, context);
    let attached = world.volumes().await[0].attachments.clone();
    assert_eq!((attached.len(), attached[0].instance_id.as_str()), (1, world.here.as_str()));
    assert_eq!(attached[0].device, context["devicePath"]);
}

#[tokio::test(start_paused = true)]
async fn publish_context_names_a_snapshot_or_clone_as_source() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let request =
        CreateSnapshotRequest { name: "s".to_owned(), source_volume_id: volume.clone(), ..Default::default() };
    let snapshot = world.service.create_snapshot(world.over(request)).await.expect("taken").into_inner();
    let snapshot_id = snapshot.snapshot.expect("a snapshot").snapshot_id;
    use csi_proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
    let rows = [
        ("snapshot", Type::Snapshot(SnapshotSource { snapshot_id })),
        ("clone", Type::Volume(VolumeSource { volume_id: volume })),
    ];
    for (source, content) in rows {
        let content = csi::VolumeContentSource { r#type: Some(content) };
        let request = CreateVolumeRequest {
            volume_content_source: Some(content),
            ..in_zone(named(&format!("pvc-{source}")), "us-west-2a")
        };
        let made = world.create(request).await.expect("created").volume_id;
        let context = world.publish(&made, world.here.as_str()).await.expect("attached");
        assert_eq!(context["ebs.csi.aws.com/source"], source);
    }
}

/// It is FailedPrecondition, and the message names the instance.
#[tokio::test(start_paused = true)]
async fn volume_attached_elsewhere_is_refused_with_the_instance() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.publish(&volume, world.here.as_str()).await.expect("attached");
    let result = world.publish(&volume, world.elsewhere.as_str()).await;
    refused(result, "FailedPrecondition", world.here.as_str());
    assert_eq!(world.volumes().await[0].attachments.len(), 1);
}

/// The volume is attached in its zone, and the request names a node in another zone. A detach would not help, so the
/// message does not advise it.
#[tokio::test(start_paused = true)]
async fn zone_mismatch_is_not_blamed_on_the_present_attachment() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.publish(&volume, world.here.as_str()).await.expect("attached");
    let error = world.publish(&volume, world.elsewhere.as_str()).await.expect_err("another zone");
    assert_eq!(error.code, "FailedPrecondition", "{error:?}");
    assert!(error.message.contains("different zones") && error.message.contains("us-west-2a"), "{error:?}");
    assert!(!error.message.contains("detach it"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn publish_to_a_node_in_another_zone_is_failed_precondition() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    refused(world.publish(&volume, world.elsewhere.as_str()).await, "FailedPrecondition", "zone");
}

#[tokio::test(start_paused = true)]
async fn publish_of_missing_volume_or_node_is_not_found() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let (no_volume, no_node) = ("vol-0123456789abcdef0", "i-0123456789abcdef0");
    refused(world.publish(no_volume, world.here.as_str()).await, "NotFound", no_volume);
    refused(world.publish(&volume, no_node).await, "NotFound", no_node);
    refused(world.publish("disk-7", world.here.as_str()).await, "NotFound", "disk-7");
    refused(world.publish(&volume, "node-7").await, "NotFound", "node-7");
    refused(world.publish(&volume, "hyperpod-no-node").await, "NotFound", "hyperpod-no-node");
    assert!(world.volumes().await[0].attachments.is_empty());
}

/// For example with an unsupported capability or without IDs.
#[tokio::test(start_paused = true)]
async fn invalid_publish_is_refused_before_any_call() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.ec2.clear_calls();
    let good = || ControllerPublishVolumeRequest {
        volume_id: volume.clone(),
        node_id: world.here.to_string(),
        volume_capability: Some(mount("ext4")),
        ..Default::default()
    };
    let rows = [
        (ControllerPublishVolumeRequest { volume_id: String::new(), ..good() }, "volume_id"),
        (ControllerPublishVolumeRequest { node_id: String::new(), ..good() }, "node_id"),
        (ControllerPublishVolumeRequest { volume_capability: None, ..good() }, "capability"),
        (
            ControllerPublishVolumeRequest {
                volume_capability: Some(capability(
                    AccessType::Mount(MountVolume::default()),
                    Mode::MultiNodeMultiWriter,
                )),
                ..good()
            },
            "MULTI_NODE_MULTI_WRITER",
        ),
        (
            ControllerPublishVolumeRequest { volume_id: "local-ebs://dev/x".to_owned(), ..good() },
            "--enable-node-local-volumes",
        ),
    ];
    for (request, says) in rows {
        refused(world.publish_as(request).await, "InvalidArgument", says);
    }
    assert_eq!(world.ec2.calls(), []);
}

/// EBS cannot attach read-only, and no capability offers it. The flag is passed on to the node, which mounts read-only.
/// A repeat without it has no flag.
#[tokio::test(start_paused = true)]
async fn readonly_of_publish_is_passed_on_to_the_node() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let request = |readonly| ControllerPublishVolumeRequest {
        volume_id: volume.clone(),
        node_id: world.here.to_string(),
        volume_capability: Some(mount("ext4")),
        readonly,
        ..Default::default()
    };
    let read_only = world.publish_as(request(true)).await.expect("attached");
    assert_eq!(read_only.get("ebs.csi.aws.com/readonly").map(String::as_str), Some("true"));
    let writable = world.publish_as(request(false)).await.expect("is attached");
    assert_eq!(writable.get("ebs.csi.aws.com/readonly"), None);
    assert_eq!(writable.len() + 1, read_only.len());
}

/// Secrets and a mount group, which no capability requests, do not affect any request.
#[tokio::test(start_paused = true)]
async fn fields_without_a_capability_are_accepted_and_ignored() {
    let world = World::start().await;
    let secrets = map(&[("key", "value")]);
    let mount = MountVolume { volume_mount_group: "1000".to_owned(), ..Default::default() };
    let wanted = capability(AccessType::Mount(mount), Mode::SingleNodeWriter);
    let request = CreateVolumeRequest {
        secrets: secrets.clone(),
        volume_capabilities: vec![wanted.clone()],
        ..in_zone(named("pvc-1"), "us-west-2a")
    };
    let volume = world.create(request).await.expect("created").volume_id;
    let publish = ControllerPublishVolumeRequest {
        volume_id: volume,
        node_id: world.here.to_string(),
        volume_capability: Some(wanted),
        secrets,
        ..Default::default()
    };
    world.publish_as(publish).await.expect("attached");
}

/// When it is already published, the code is AlreadyExists.
#[tokio::test(start_paused = true)]
async fn single_node_volume_is_not_published_for_several_nodes() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let shared = ControllerPublishVolumeRequest {
        volume_id: volume.clone(),
        node_id: world.here.to_string(),
        volume_capability: Some(block(Mode::MultiNodeMultiWriter)),
        ..Default::default()
    };
    refused(world.publish_as(shared.clone()).await, "InvalidArgument", "io2");
    assert_eq!(world.mutations(), [Action::CreateVolume]);
    world.publish(&volume, world.here.as_str()).await.expect("attached");
    refused(world.publish_as(shared).await, "AlreadyExists", "single-node volume");
}

#[tokio::test(start_paused = true)]
async fn volume_is_published_to_hyperpod_node_through_its_cluster() {
    let world = World::start().await;
    world.ec2.declare(ebs_sim::iam::Extra::HyperPod);
    let volume = world.volume("pvc-1").await;
    let node = "hyperpod-my-cluster-i-0123456789abcdef0";
    for _ in 0..2 {
        let context = world.publish(&volume, node).await.expect("attached");
        assert!(context["devicePath"].starts_with("/dev/"), "{context:?}");
    }
    refused(world.publish(&volume, world.here.as_str()).await, "FailedPrecondition", "my-cluster");
    for _ in 0..2 {
        world.unpublish(&volume, node).await.expect("detached");
    }
    let nodes_actions = [Action::AttachClusterNodeVolume, Action::DetachClusterNodeVolume];
    assert!(nodes_actions.iter().all(|action| world.ec2.count(*action) > 0));
    assert!(world.volumes().await[0].attachments.is_empty());
}

/// It also accepts old handles.
#[tokio::test(start_paused = true)]
async fn unpublish_detaches_and_is_idempotent() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.publish(&volume, world.here.as_str()).await.expect("attached");
    world.unpublish(&format!("aws://us-west-2a/{volume}"), world.here.as_str()).await.expect("detached");
    assert!(world.volumes().await[0].attachments.is_empty());
    world.unpublish(&volume, world.here.as_str()).await.expect("is detached");
    world.publish(&volume, world.here.as_str()).await.expect("can be attached again");
}

/// Also for an impossible HyperPod node. An empty node ID is refused.
#[tokio::test(start_paused = true)]
async fn unpublish_of_missing_volume_or_node_succeeds() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let node = world.here.as_str();
    world.unpublish("vol-0123456789abcdef0", node).await.expect("no such volume");
    world.unpublish(&volume, "i-0123456789abcdef0").await.expect("no such node");
    world.unpublish("disk-7", node).await.expect("cannot be a volume");
    world.unpublish(&volume, "node-7").await.expect("cannot be a node");
    world.unpublish("local-ebs://dev/xvdbz", node).await.expect("is never attached by us");
    refused(world.unpublish("", node).await, "InvalidArgument", "volume_id");
    refused(world.unpublish(&volume, "").await, "InvalidArgument", "node_id");
    world.unpublish(&volume, "hyperpod-no-node").await.expect("cannot be a node");
}

/// `blockAttachUntilInitialized` is kept in the volume context.
#[tokio::test(start_paused = true)]
async fn initialization_is_awaited_before_attach_when_requested() {
    let world = World::start().await;
    let parameters = map(&[("blockAttachUntilInitialized", "true")]);
    let volume = world.create(CreateVolumeRequest { parameters, ..in_zone(named("pvc-1"), "us-west-2a") }).await;
    let volume = volume.expect("created");
    assert_eq!(volume.volume_context.get("blockattachuntilinitialized").map(String::as_str), Some("true"));
    world.ec2.clear_calls();
    let request = ControllerPublishVolumeRequest {
        volume_id: volume.volume_id,
        node_id: world.here.to_string(),
        volume_capability: Some(mount("ext4")),
        volume_context: volume.volume_context,
        ..Default::default()
    };
    world.publish_as(request).await.expect("attached");
    let actions: Vec<Action> = world.ec2.calls().iter().map(|c| c.action).collect();
    let at = |action| actions.iter().position(|a| *a == action);
    assert!(
        at(Action::DescribeVolumeStatus).is_some_and(|asked| Some(asked) < at(Action::AttachVolume)),
        "{actions:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn multi_attach_volume_is_published_before_ec2_lists_it() {
    let world = World::start().await;
    let request = CreateVolumeRequest {
        volume_capabilities: vec![block(Mode::MultiNodeMultiWriter)],
        ..in_zone(with_parameters(named("pvc-1"), &[("type", "io2"), ("iops", "200")]), "us-west-2a")
    };
    let volume = world.create(request).await.expect("created").volume_id;
    let lag = Rule::new(Effect::Stale { lag_ms: 15_000 }).on("DescribeVolumes").times(1);
    world.ec2.faults().add(lag).expect("a rule");
    let request = ControllerPublishVolumeRequest {
        volume_id: volume,
        node_id: world.here.to_string(),
        volume_capability: Some(block(Mode::MultiNodeMultiWriter)),
        ..Default::default()
    };
    world.publish_as(request).await.expect("attached");
}

use ebs_sim::faults::{Effect, Rule};

use super::*;

/// Publishing tells the node device name, size, source and attach time, the same on every repeat.
#[tokio::test(start_paused = true)]
async fn publishing_tells_the_node_the_device_the_size_the_source_and_when() {
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

/// Publishing a volume from a snapshot or a clone says so.
#[tokio::test(start_paused = true)]
async fn publishing_a_restored_volume_or_a_copy_says_so() {
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

/// A volume attached elsewhere is FailedPrecondition.
#[tokio::test(start_paused = true)]
async fn a_volume_attached_elsewhere_is_a_failed_precondition_that_names_the_instance() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.publish(&volume, world.here.as_str()).await.expect("attached");
    let result = world.publish(&volume, world.elsewhere.as_str()).await;
    refused(result, "FailedPrecondition", world.here.as_str());
    assert_eq!(world.volumes().await[0].attachments.len(), 1);
}

/// A volume that is attached in its own zone and wanted in another: detaching it would not help, so the message does not advise it.
#[tokio::test(start_paused = true)]
async fn a_zone_mismatch_is_not_blamed_on_the_holder() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.publish(&volume, world.here.as_str()).await.expect("attached");
    let error = world.publish(&volume, world.elsewhere.as_str()).await.expect_err("another zone");
    assert_eq!(error.code, "FailedPrecondition", "{error:?}");
    assert!(error.message.contains("different zones") && error.message.contains("us-west-2a"), "{error:?}");
    assert!(!error.message.contains("detach it"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_in_another_zone_is_a_failed_precondition() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    refused(world.publish(&volume, world.elsewhere.as_str()).await, "FailedPrecondition", "zone");
}

/// Publishing a missing volume or to a missing node is NotFound.
#[tokio::test(start_paused = true)]
async fn what_does_not_exist_cannot_be_published() {
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

/// A Publish that cannot be (wrong capability, missing ids) is refused before EC2 is asked.
#[tokio::test(start_paused = true)]
async fn a_publish_that_cannot_be_changes_nothing() {
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

/// EBS attaches nothing read-only, and no capability offers it: the flag goes on to the node, which mounts so, and a repeat
/// without it carries no flag.
#[tokio::test(start_paused = true)]
async fn readonly_of_a_publish_goes_on_to_the_node() {
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

/// Secrets and a group for the mount, which no capability asks for, change nothing of any request.
#[tokio::test(start_paused = true)]
async fn fields_that_no_capability_asks_for_are_accepted() {
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

/// A volume for one node is not promised to several; published already, that is AlreadyExists.
#[tokio::test(start_paused = true)]
async fn a_volume_for_one_node_is_not_promised_to_several() {
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
    refused(world.publish_as(shared).await, "AlreadyExists", "one node only");
}

/// The controller publishes to HyperPod nodes.
#[tokio::test(start_paused = true)]
async fn volumes_are_published_to_hyperpod_nodes_through_their_cluster() {
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

/// Unpublish detaches, is idempotent and understands old handles.
#[tokio::test(start_paused = true)]
async fn unpublishing_detaches_and_is_idempotent() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.publish(&volume, world.here.as_str()).await.expect("attached");
    world.unpublish(&format!("aws://us-west-2a/{volume}"), world.here.as_str()).await.expect("detached");
    assert!(world.volumes().await[0].attachments.is_empty());
    world.unpublish(&volume, world.here.as_str()).await.expect("is detached");
    world.publish(&volume, world.here.as_str()).await.expect("can be attached again");
}

/// Unpublish of what cannot exist succeeds, an impossible HyperPod node included; an empty node id is refused.
#[tokio::test(start_paused = true)]
async fn nothing_is_attached_to_or_of_what_does_not_exist() {
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

/// `blockAttachUntilInitialized` is kept in the volume context, and such a volume is looked at before it is attached.
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_to_wait_for_initialization_is_looked_at_before_it_is_attached() {
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

/// A multi-attach volume is published also before looks show it.
#[tokio::test(start_paused = true)]
async fn a_volume_for_several_nodes_is_published_also_before_looks_show_it() {
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

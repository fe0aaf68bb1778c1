use ebs_sim::faults::{Effect, Rule};

use super::*;

/// A repeated request returns the same publish context.
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
    assert_eq!(world.publish(&volume, world.here.as_str()).await.as_ref(), Ok(&context));
    let attached = world.volumes().await[0].attachments.clone();
    assert_eq!((attached.len(), attached[0].instance_id.as_str()), (1, world.here.as_str()));
    assert_eq!(attached[0].device, context["devicePath"]);
}

/// CreateVolume also returns the source.
#[tokio::test(start_paused = true)]
async fn publish_context_names_a_snapshot_or_clone_as_source() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let snapshot = world.take("s", &volume, &[]).await.expect("taken").snapshot_id;
    let request = |name: &str| in_zone(named(name), HERE);
    for (source, request) in
        [("snapshot", from_snapshot(request("pvc-2"), &snapshot)), ("clone", from_volume(request("pvc-3"), &volume))]
    {
        let made = world.create(request.clone()).await.expect("created");
        assert_eq!(made.content_source, request.volume_content_source);
        let context = world.publish(&made.volume_id, world.here.as_str()).await.expect("attached");
        assert_eq!(context["ebs.csi.aws.com/source"], source);
    }
}

/// The volume is attached in its own zone, and the request names a node in another zone. A detach would not help, so
/// the message does not advise one.
#[tokio::test(start_paused = true)]
async fn zone_mismatch_error_does_not_advise_a_detach() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.publish(&volume, world.here.as_str()).await.expect("attached");
    let error = world.publish(&volume, world.elsewhere.as_str()).await.expect_err("another zone");
    assert!(error.message.contains("different zones") && !error.message.contains("detach it"), "{error:?}");
    refused::<()>(Err(error), "FailedPrecondition", HERE);
    assert_eq!(world.volumes().await[0].attachments.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn publish_returns_not_found_for_a_missing_volume_or_node() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let (here, no_node) = (world.here.as_str(), "i-0123456789abcdef0");
    for (volume, node, missing) in [
        (NO_VOLUME, here, NO_VOLUME),
        (&volume, no_node, no_node),
        ("disk-7", here, "disk-7"),
        (&volume, "node-7", "node-7"),
        (&volume, "hyperpod-no-node", "hyperpod-no-node"),
    ] {
        refused(world.publish(volume, node).await, "NotFound", missing);
    }
    assert!(!world.is_attached().await);
}

/// The driver checks the volume first, then the node, then the capability.
#[tokio::test(start_paused = true)]
async fn publish_reports_the_first_of_several_faults() {
    let world = World::start().await;
    let good = world.to_publish(&world.volume("pvc-1").await);
    world.ec2.clear_calls();
    let shared = capability(AccessType::Mount(MountVolume::default()), Mode::MultiNodeMultiWriter);
    let local = ControllerPublishVolumeRequest { volume_id: "local-ebs://dev/x".to_owned(), ..good.clone() };
    refused(world.publish_as(local).await, "InvalidArgument", "--enable-node-local-volumes");
    let mut request = ControllerPublishVolumeRequest::default();
    refused(world.publish_as(request.clone()).await, "InvalidArgument", "volume_id");
    request.volume_id = good.volume_id;
    refused(world.publish_as(request.clone()).await, "InvalidArgument", "node_id");
    request.node_id = good.node_id;
    refused(world.publish_as(request.clone()).await, "InvalidArgument", "capability");
    for (capability, says) in [
        (block(Mode::SingleNodeReaderOnly), "SINGLE_NODE_READER_ONLY"),
        (shared, "MULTI_NODE_MULTI_WRITER"),
        (mount("zfs"), "zfs"),
    ] {
        request.volume_capability = Some(capability);
        refused(world.publish_as(request.clone()).await, "InvalidArgument", says);
    }
    assert_eq!(world.ec2.calls(), []);
    request.volume_capability = Some(block(Mode::SingleNodeWriter));
    world.publish_as(request).await.expect("attached");
}

/// EBS cannot attach a volume read-only, and the driver does not announce the capability. The publish context passes
/// the flag to the node, which mounts the volume read-only. A repeated request without the flag returns a context
/// without it.
#[tokio::test(start_paused = true)]
async fn publish_passes_the_readonly_flag_to_the_node() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let request = |readonly| ControllerPublishVolumeRequest { readonly, ..world.to_publish(&volume) };
    let read_only = world.publish_as(request(true)).await.expect("attached");
    let mut writable = world.publish_as(request(false)).await.expect("is attached");
    assert_eq!(writable.insert("ebs.csi.aws.com/readonly".to_owned(), "true".to_owned()), None);
    assert_eq!(writable, read_only);
}

/// Secrets and a mount group, for which the driver announces no capability, do not affect any request.
#[tokio::test(start_paused = true)]
async fn request_fields_of_unannounced_capabilities_are_ignored() {
    let world = World::start().await;
    let secrets = map(&[("key", "value")]);
    let mount = MountVolume { volume_mount_group: "1000".to_owned(), ..Default::default() };
    let wanted = capability(AccessType::Mount(mount), Mode::SingleNodeWriter);
    let request = with_capability(in_zone(named("pvc-1"), HERE), wanted.clone());
    let volume = world.create(CreateVolumeRequest { secrets: secrets.clone(), ..request }).await.expect("created");
    let publish = world.to_publish(&volume.volume_id);
    let publish = ControllerPublishVolumeRequest { volume_capability: Some(wanted), secrets, ..publish };
    world.publish_as(publish).await.expect("attached");
}

/// For a volume that is already published, the error code is AlreadyExists.
#[tokio::test(start_paused = true)]
async fn single_node_volume_is_not_published_for_several_nodes() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let volume_capability = Some(block(Mode::MultiNodeMultiWriter));
    let shared = ControllerPublishVolumeRequest { volume_capability, ..world.to_publish(&volume) };
    refused(world.publish_as(shared.clone()).await, "InvalidArgument", "io2");
    assert_eq!(world.mutations(), [Action::CreateVolume]);
    world.publish(&volume, world.here.as_str()).await.expect("attached");
    refused(world.publish_as(shared).await, "AlreadyExists", "single-node volume");
}

/// Unpublish also accepts old handles, and succeeds when the volume or node does not exist.
#[tokio::test(start_paused = true)]
async fn unpublish_detaches_and_is_idempotent() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let node = world.here.as_str();
    world.publish(&volume, node).await.expect("attached");
    world.unpublish(&format!("aws://us-west-2a/{volume}"), node).await.expect("detached");
    assert!(!world.is_attached().await);
    for (volume, node) in [
        (volume.as_str(), node),
        (NO_VOLUME, node),
        (&volume, "i-0123456789abcdef0"),
        ("disk-7", node),
        (&volume, "node-7"),
        ("local-ebs://dev/xvdbz", node),
        (&volume, "hyperpod-no-node"),
    ] {
        world.unpublish(volume, node).await.expect("nothing is attached");
    }
    refused(world.unpublish("", node).await, "InvalidArgument", "volume_id");
    refused(world.unpublish(&volume, "").await, "InvalidArgument", "node_id");
    world.publish(&volume, node).await.expect("can be attached again");
}

/// The volume context contains `blockAttachUntilInitialized`.
#[tokio::test(start_paused = true)]
async fn attach_waits_for_initialization_when_requested() {
    let world = World::start().await;
    let parameters = [("blockAttachUntilInitialized", "true")];
    let volume = world.create(in_zone(with_parameters(named("pvc-1"), &parameters), HERE)).await.expect("created");
    assert_eq!(volume.volume_context, map(&[("blockattachuntilinitialized", "true")]));
    world.ec2.clear_calls();
    let request = world.to_publish(&volume.volume_id);
    let request = ControllerPublishVolumeRequest { volume_context: volume.volume_context, ..request };
    world.publish_as(request).await.expect("attached");
    let actions: Vec<Action> = world.ec2.calls().iter().map(|c| c.action).collect();
    let at = |action| actions.iter().position(|a| *a == action);
    let asked = at(Action::DescribeVolumeStatus);
    assert!(asked.is_some() && asked < at(Action::AttachVolume), "{actions:?}");
}

/// The volume is io2 with a block capability.
#[tokio::test(start_paused = true)]
async fn multi_attach_volume_is_published_before_ec2_lists_it() {
    let world = World::start().await;
    let shared = block(Mode::MultiNodeMultiWriter);
    let request = in_zone(with_parameters(named("pvc-1"), &[("type", "io2"), ("iops", "200")]), HERE);
    let volume = world.create(with_capability(request, shared.clone())).await.expect("created").volume_id;
    assert!(world.volumes().await[0].multi_attach);
    let lag = Rule::new(Effect::Stale { lag_ms: 15_000 }).on("DescribeVolumes").times(1);
    world.ec2.faults().add(lag).expect("a rule");
    let request = ControllerPublishVolumeRequest { volume_capability: Some(shared), ..world.to_publish(&volume) };
    world.publish_as(request).await.expect("attached");
}

use ebs_ec2::{AttachRequest, Attachments as _, DeviceName, ErrorClass, VolumeId};

use super::*;

const HANDLE: &str = "local-ebs://dev/xvdbz";

/// Creates a driver with node-local volumes enabled.
pub(super) async fn world() -> World {
    let mut world = World::start().await;
    let options = ControllerOptions { node_local_volumes: true, ..ControllerOptions::default() };
    world.service = ControllerService { options: Arc::new(options), ..world.service };
    world
}

/// Creates a volume that another program has attached to the first instance as `/dev/xvdbz`.
pub(super) async fn attached_by_hand(world: &World) -> String {
    let volume = world.volume("by-hand").await;
    let request = AttachRequest {
        volume: VolumeId::parse(&volume).expect("an id"),
        instance: world.here.clone(),
        device: DeviceName::new("/dev/xvdbz"),
        card: None,
    };
    world.ec2.attach_volume(&request).await.expect("attached");
    world.ec2.clear_calls();
    volume
}

/// The publish context contains the device of the handle, the volume that EC2 lists at this device, and whether the
/// request is read-only. Unpublish does nothing.
#[tokio::test(start_paused = true)]
async fn publish_describes_a_node_local_volume_without_attaching_it() {
    let world = world().await;
    let volume = attached_by_hand(&world).await;
    let shared = capability(AccessType::Mount(MountVolume::default()), Mode::MultiNodeMultiWriter);
    for capability in [mount("xfs"), block(Mode::SingleNodeWriter), shared] {
        let request = ControllerPublishVolumeRequest {
            volume_capability: Some(capability),
            volume_context: map(&[("blockattachuntilinitialized", "true")]),
            ..world.to_publish(HANDLE)
        };
        let context = world.publish_as(request).await.expect("the volume is attached");
        assert_eq!(context, map(&[("devicePath", "/dev/xvdbz"), ("volumeID", &volume)]));
    }
    // A handle with three slashes names the same device.
    let request = ControllerPublishVolumeRequest { readonly: true, ..world.to_publish("local-ebs:///dev/xvdbz") };
    let context = world.publish_as(request).await.expect("the volume is attached");
    let wanted = [("devicePath", "/dev/xvdbz"), ("volumeID", &volume), ("ebs.csi.aws.com/readonly", "true")];
    assert_eq!(context, map(&wanted));
    for handle in [HANDLE, "local-ebs://"] {
        world.unpublish(handle, world.here.as_str()).await.expect("nothing to do");
    }
    let actions: Vec<Action> = world.ec2.calls().iter().map(|call| call.action).collect();
    assert_eq!(actions, [Action::DescribeInstances; 4]);
    assert_eq!(world.volumes().await[0].attachments.len(), 1);
}

/// The device has no volume, the node does not exist, the device is the root device, or EC2 rejects DescribeInstances.
/// Each error has the code of its cause.
#[tokio::test(start_paused = true)]
async fn publish_of_an_unusable_node_local_device_is_refused() {
    let world = world().await;
    attached_by_hand(&world).await;
    let here = world.here.as_str();
    for (handle, node, code, says) in [
        ("local-ebs://dev/xvdby", here, "NotFound", "/dev/xvdby"),
        (HANDLE, world.elsewhere.as_str(), "NotFound", "/dev/xvdbz"),
        (HANDLE, "i-0123456789abcdef0", "NotFound", "i-0123456789abcdef0"),
        (HANDLE, "node-7", "NotFound", "node-7"),
        ("local-ebs://dev/xvda", here, "InvalidArgument", "root device"),
    ] {
        refused(world.publish(handle, node).await, code, says);
    }
    world.ec2.fail_next(Action::DescribeInstances, ErrorClass::Unauthorized, false);
    refused(world.publish(HANDLE, here).await, "PermissionDenied", "instance");
    world.publish(HANDLE, here).await.expect("the volume is attached");
}

#[tokio::test(start_paused = true)]
async fn device_that_is_attaching_or_detaching_is_not_published() {
    let world = world().await;
    world.timing(TimingOverride { attach_ms: Some(60_000), ..Default::default() }).await;
    attached_by_hand(&world).await;
    let publish = || world.publish(HANDLE, world.here.as_str());
    refused(publish().await, "FailedPrecondition", "is not in state attached");
    tokio::time::sleep(Duration::from_secs(90)).await;
    publish().await.expect("attached by now");
}

/// The requests have a handle without a device, a missing node, a missing or unsupported capability, or a HyperPod
/// node.
#[tokio::test(start_paused = true)]
async fn invalid_node_local_request_is_refused_before_any_call() {
    let world = world().await;
    attached_by_hand(&world).await;
    let here = world.here.as_str();
    for (handle, node, says) in [
        ("local-ebs://", here, "names no device"),
        ("local-ebs:///", here, "names no device"),
        (HANDLE, "", "node_id"),
        (HANDLE, "hyperpod-my-cluster-i-0123456789abcdef0", "HyperPod"),
    ] {
        refused(world.publish(handle, node).await, "InvalidArgument", says);
    }
    let reader = capability(AccessType::Mount(MountVolume::default()), Mode::MultiNodeReaderOnly);
    for (volume_capability, says) in [(None, "capability"), (Some(reader), "MULTI_NODE_READER_ONLY")] {
        let request = ControllerPublishVolumeRequest { volume_capability, ..world.to_publish(HANDLE) };
        refused(world.publish_as(request).await, "InvalidArgument", says);
    }
    assert_eq!(world.ec2.calls(), []);
}

/// DeleteVolume succeeds for any handle and deletes nothing.
#[tokio::test(start_paused = true)]
async fn node_local_volume_is_validated_and_deleted_without_ec2() {
    let mut world = world().await;
    let volume = attached_by_hand(&world).await;
    let validate = async |world: &World, handle: &str, mode| {
        let capability = capability(AccessType::Mount(MountVolume::default()), mode);
        let request = ValidateVolumeCapabilitiesRequest {
            volume_id: handle.to_owned(),
            volume_capabilities: vec![mount("xfs"), capability],
            ..Default::default()
        };
        ask!(world, validate_volume_capabilities, request).map(|answer| answer.confirmed.is_some())
    };
    assert_eq!(validate(&world, HANDLE, Mode::MultiNodeMultiWriter).await, Ok(true));
    assert_eq!(validate(&world, HANDLE, Mode::SingleNodeReaderOnly).await, Ok(false));
    refused(validate(&world, "local-ebs://", Mode::SingleNodeWriter).await, "InvalidArgument", "no device");
    for handle in [HANDLE.to_owned(), format!("local-ebs://dev/{volume}")] {
        world.delete(&handle).await.expect("nothing to do");
    }
    world.replace_driver();
    let off = validate(&world, HANDLE, Mode::SingleNodeWriter).await;
    refused(off, "InvalidArgument", "--enable-node-local-volumes");
    assert_eq!(world.ec2.calls(), []);
}

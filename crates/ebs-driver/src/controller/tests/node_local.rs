use ebs_ec2::{AttachRequest, Attachments as _, DeviceName, ErrorClass, VolumeId};

use super::*;

const HANDLE: &str = "local-ebs://dev/xvdbz";

/// Creates a driver with node-local volumes enabled.
pub(super) async fn world() -> World {
    let mut world = World::start().await;
    let options = ControllerOptions { node_local_volumes: true, ..ControllerOptions::default() };
    let cloud = Cloud::new(Arc::new(world.ec2.clone()), CloudConfig::new(DriverName::default()));
    world.service = ControllerService::new(Arc::new(cloud), options, world.operations.clone());
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
    volume
}

pub(super) fn request(handle: &str, node: &str) -> ControllerPublishVolumeRequest {
    ControllerPublishVolumeRequest {
        volume_id: handle.to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(mount("xfs")),
        ..Default::default()
    }
}

/// The publish context contains the device of the handle, and the volume that EC2 lists there. Unpublish does nothing.
#[tokio::test(start_paused = true)]
async fn node_local_volume_is_described_and_not_attached() {
    let world = world().await;
    let volume = attached_by_hand(&world).await;
    world.ec2.clear_calls();
    let shared = capability(AccessType::Mount(MountVolume::default()), Mode::MultiNodeMultiWriter);
    for capability in [mount("xfs"), block(Mode::SingleNodeWriter), shared] {
        let request = ControllerPublishVolumeRequest {
            volume_capability: Some(capability),
            volume_context: map(&[("blockattachuntilinitialized", "true")]),
            ..request(HANDLE, world.here.as_str())
        };
        let context = world.publish_as(request).await.expect("the volume is attached");
        assert_eq!(context, map(&[("devicePath", "/dev/xvdbz"), ("volumeID", &volume)]));
    }
    for handle in [HANDLE, "local-ebs://"] {
        world.unpublish(handle, world.here.as_str()).await.expect("nothing to do");
    }
    let actions: Vec<Action> = world.ec2.calls().iter().map(|call| call.action).collect();
    assert_eq!(actions, [Action::DescribeInstances; 3]);
    assert_eq!(world.volumes().await[0].attachments.len(), 1);
}

/// A missing volume, a missing node, the root device and a lost reply have their own codes.
#[tokio::test(start_paused = true)]
async fn publish_of_a_missing_device_is_refused() {
    let world = world().await;
    attached_by_hand(&world).await;
    let here = world.here.as_str();
    let publish = async |handle: &str, node: &str| world.publish_as(request(handle, node)).await;
    refused(publish("local-ebs://dev/xvdby", here).await, "NotFound", "/dev/xvdby");
    refused(publish(HANDLE, world.elsewhere.as_str()).await, "NotFound", "/dev/xvdbz");
    refused(publish(HANDLE, "i-0123456789abcdef0").await, "NotFound", "i-0123456789abcdef0");
    refused(publish(HANDLE, "node-7").await, "NotFound", "node-7");
    refused(publish("local-ebs://dev/xvda", here).await, "InvalidArgument", "root device");
    world.ec2.fail_next(Action::DescribeInstances, ErrorClass::Unauthorized, false);
    refused(publish(HANDLE, here).await, "PermissionDenied", "instance");
    publish(HANDLE, here).await.expect("the volume is attached");
}

#[tokio::test(start_paused = true)]
async fn device_that_attaches_or_detaches_is_not_published() {
    let world = world().await;
    let slow = ebs_sim::engine::TimingOverride { attach_ms: Some(60_000), ..Default::default() };
    world.ec2.engine().set_timing(slow).await;
    attached_by_hand(&world).await;
    let publish = || world.publish_as(request(HANDLE, world.here.as_str()));
    refused(publish().await, "FailedPrecondition", "is not in state attached");
    tokio::time::sleep(Duration::from_secs(90)).await;
    publish().await.expect("attached by now");
}

/// For example a handle without device, a missing node, a missing or unsupported capability, or a HyperPod node.
#[tokio::test(start_paused = true)]
async fn invalid_node_local_request_is_refused_before_any_call() {
    let world = world().await;
    attached_by_hand(&world).await;
    world.ec2.clear_calls();
    let here = world.here.as_str();
    let good = || request(HANDLE, here);
    let with = |capability| ControllerPublishVolumeRequest { volume_capability: capability, ..good() };
    let reader = capability(AccessType::Mount(MountVolume::default()), Mode::MultiNodeReaderOnly);
    let rows = [
        (request("local-ebs://", here), "names no device"),
        (request("local-ebs:///", here), "names no device"),
        (request(HANDLE, ""), "node_id"),
        (with(None), "capability"),
        (with(Some(reader)), "MULTI_NODE_READER_ONLY"),
        (request(HANDLE, "hyperpod-my-cluster-i-0123456789abcdef0"), "HyperPod"),
    ];
    for (request, says) in rows {
        refused(world.publish_as(request).await, "InvalidArgument", says);
    }
    assert_eq!(world.ec2.calls(), []);
}

/// A delete succeeds for any handle and deletes nothing.
#[tokio::test(start_paused = true)]
async fn node_local_volume_is_validated_and_deleted_without_a_call() {
    let world = world().await;
    let volume = attached_by_hand(&world).await;
    world.ec2.clear_calls();
    let validate = async |service: &ControllerService<_>, handle: &str, mode| {
        let capability = capability(AccessType::Mount(MountVolume::default()), mode);
        let request = ValidateVolumeCapabilitiesRequest {
            volume_id: handle.to_owned(),
            volume_capabilities: vec![mount("xfs"), capability],
            ..Default::default()
        };
        let answer = service.validate_volume_capabilities(Request::new(request)).await;
        answer.map(|answer| answer.into_inner().confirmed.is_some()).map_err(Refused::from)
    };
    assert_eq!(validate(&world.service, HANDLE, Mode::MultiNodeMultiWriter).await, Ok(true));
    assert_eq!(validate(&world.service, HANDLE, Mode::SingleNodeReaderOnly).await, Ok(false));
    refused(validate(&world.service, "local-ebs://", Mode::SingleNodeWriter).await, "InvalidArgument", "no device");
    let (off, _) = driver_over(&world.ec2, None);
    let answer = validate(&off, HANDLE, Mode::SingleNodeWriter).await;
    refused(answer, "InvalidArgument", "--enable-node-local-volumes");
    for handle in [HANDLE.to_owned(), format!("local-ebs://dev/{volume}")] {
        world.delete(&handle).await.expect("nothing to do");
    }
    assert_eq!(world.ec2.calls(), []);
}

/// A handle with three slashes names the same device.
#[tokio::test(start_paused = true)]
async fn readonly_of_a_node_local_publish_is_passed_on() {
    let world = world().await;
    let volume = attached_by_hand(&world).await;
    let request =
        ControllerPublishVolumeRequest { readonly: true, ..request("local-ebs:///dev/xvdbz", world.here.as_str()) };
    let context = world.publish_as(request).await.expect("the volume is attached");
    let wanted = [("devicePath", "/dev/xvdbz"), ("volumeID", &volume), ("ebs.csi.aws.com/readonly", "true")];
    assert_eq!(context, map(&wanted));
}

use csi_proto::csi::volume_content_source::{SnapshotSource, Type as SourceType, VolumeSource};
use ebs_ec2::{ErrorClass, Limit};

use super::*;

fn from(request: CreateVolumeRequest, source: SourceType) -> CreateVolumeRequest {
    CreateVolumeRequest { volume_content_source: Some(csi::VolumeContentSource { r#type: Some(source) }), ..request }
}

pub(super) fn from_snapshot(request: CreateVolumeRequest, id: &str) -> CreateVolumeRequest {
    from(request, SourceType::Snapshot(SnapshotSource { snapshot_id: id.to_owned() }))
}

pub(super) fn from_volume(request: CreateVolumeRequest, id: &str) -> CreateVolumeRequest {
    from(request, SourceType::Volume(VolumeSource { volume_id: id.to_owned() }))
}

/// Its topology is its zone.
#[tokio::test(start_paused = true)]
async fn volume_has_the_properties_of_its_class() {
    let world = World::start().await;
    let parameters = [
        ("Type", "GP3"),
        ("iops", "4000"),
        ("throughput", "250"),
        ("encrypted", "TRUE"),
        ("tagSpecification_1", "team={{ .PVCName }}"),
        ("csi.storage.k8s.io/pvc/name", "data"),
        ("inodeSize", "512"),
    ];
    let mut request = in_zone(with_parameters(named("pvc-1"), &parameters), "us-west-2b");
    request.capacity_range = bytes(7 * GIB + 1, 9 * GIB);
    let got = world.create(request).await.expect("created");
    assert_eq!(got.capacity_bytes, 8 * GIB);
    assert_eq!(got.volume_context, map(&[("inodesize", "512")]));
    assert_eq!(got.accessible_topology.len(), 1);
    assert_eq!(got.accessible_topology[0].segments, map(&[("topology.kubernetes.io/zone", "us-west-2b")]));
    let volumes = world.volumes().await;
    let [volume] = volumes.as_slice() else { panic!("{volumes:?}") };
    assert_eq!((volume.id.as_str(), volume.zone.as_str()), (got.volume_id.as_str(), "us-west-2b"));
    assert_eq!((volume.volume_type.as_str(), volume.size_gib, volume.iops), ("gp3", 8, Some(4000)));
    assert!(volume.throughput == Some(250) && volume.encrypted && !volume.multi_attach);
    assert_eq!((volume.tags["CSIVolumeName"].as_str(), volume.tags["team"].as_str()), ("pvc-1", "data"));
    assert_eq!(volume.tags["ebs.csi.aws.com/cluster"], "true");
}

/// The code is AlreadyExists.
#[tokio::test(start_paused = true)]
async fn different_volume_with_the_same_name_is_refused_every_time() {
    let world = World::start().await;
    world.volume("pvc-1").await;
    let mut larger = in_zone(named("pvc-1"), "us-west-2a");
    larger.capacity_range = Some(CapacityRange { required_bytes: 8 * GIB, limit_bytes: 0 });
    for _ in 0..3 {
        refused(world.create(larger.clone()).await, "AlreadyExists", "pvc-1");
    }
    assert_eq!(world.volumes().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn zone_id_gives_a_volume_with_the_zone_name_as_topology() {
    let world = World::start().await;
    let request = in_place(named("pvc-1"), &[("topology.k8s.aws/zone-id", "usw2-az2")]);
    let got = world.create(request).await.expect("created");
    assert_eq!(got.accessible_topology[0].segments, map(&[("topology.kubernetes.io/zone", "us-west-2b")]));
}

/// The request is a block capability with several writers, on io2 only.
#[tokio::test(start_paused = true)]
async fn io2_block_volume_can_be_shared_by_several_nodes() {
    let world = World::start().await;
    let request = CreateVolumeRequest {
        volume_capabilities: vec![block(Mode::MultiNodeMultiWriter)],
        ..with_parameters(named("pvc-1"), &[("type", "io2"), ("iops", "200")])
    };
    world.create(request).await.expect("created");
    assert!(world.volumes().await[0].multi_attach);
}

/// IOPS together with IOPS per GiB are one example.
#[tokio::test(start_paused = true)]
async fn invalid_request_is_refused_before_any_call() {
    let world = World::start().await;
    let size = |required_bytes, limit_bytes| CreateVolumeRequest {
        capacity_range: Some(CapacityRange { required_bytes, limit_bytes }),
        ..named("pvc-1")
    };
    let shared = |parameters: &[(&str, &str)]| CreateVolumeRequest {
        volume_capabilities: vec![block(Mode::MultiNodeMultiWriter)],
        ..with_parameters(named("pvc-1"), parameters)
    };
    let class = |parameters: &[(&str, &str)]| with_parameters(named("pvc-1"), parameters);
    let rows = [
        (named(""), "InvalidArgument", "name"),
        (CreateVolumeRequest { volume_capabilities: Vec::new(), ..named("pvc-1") }, "InvalidArgument", "capability"),
        (
            CreateVolumeRequest { volume_capabilities: vec![block(Mode::MultiNodeReaderOnly)], ..named("pvc-1") },
            "InvalidArgument",
            "MULTI_NODE_READER_ONLY",
        ),
        (size(0, 0), "InvalidArgument", "above 0"),
        (size(-1, 0), "InvalidArgument", "negative"),
        (size(2 * GIB, GIB), "OutOfRange", "limit_bytes"),
        (class(&[("tipe", "gp3")]), "InvalidArgument", "tipe"),
        (class(&[("encrypted", "yes")]), "InvalidArgument", "encrypted"),
        (class(&[("iops", "100"), ("iopsPerGB", "3")]), "InvalidArgument", "iopsPerGB"),
        (class(&[("iops", "many")]), "InvalidArgument", "many"),
        (class(&[("tagSpecification_1", "CSIVolumeName=x")]), "InvalidArgument", "reserved"),
        (class(&[("ext4ClusterSize", "65536")]), "InvalidArgument", "ext4bigalloc"),
        (class(&[("blockAttachUntilInitialized", "maybe")]), "InvalidArgument", "blockAttachUntilInitialized"),
        (shared(&[]), "InvalidArgument", "io2"),
        (from_snapshot(named("pvc-1"), ""), "InvalidArgument", "blank"),
        (from_volume(named("pvc-1"), ""), "InvalidArgument", "blank"),
        (from_volume(named("pvc-1"), "local-ebs://dev/xvdbz"), "InvalidArgument", "node-local"),
        (from_snapshot(named("pvc-1"), "backup-7"), "NotFound", "backup-7"),
        (from_volume(named("pvc-1"), "disk-7"), "NotFound", "disk-7"),
        (in_zone(named("pvc-1"), "Mars"), "InvalidArgument", "Mars"),
        (in_place(named("pvc-1"), &[("topology.ebs.csi.aws.com/outpost-id", "op-1")]), "InvalidArgument", "account-id"),
    ];
    for (request, code, says) in rows {
        refused(world.create(request).await, code, says);
    }
    assert_eq!(world.ec2.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn clone_names_its_source() {
    let world = World::start().await;
    let source = world.volume("pvc-1").await;
    let request = from_volume(in_zone(named("pvc-2"), "us-west-2a"), &source);
    let got = world.create(request.clone()).await.expect("created");
    assert_eq!(got.content_source, request.volume_content_source);
    assert_ne!(got.volume_id, source);
}

#[tokio::test(start_paused = true)]
async fn missing_source_is_not_found() {
    let world = World::start().await;
    let request = from_volume(named("pvc-1"), "vol-0123456789abcdef0");
    refused(world.create(request).await, "NotFound", "vol-0123456789abcdef0");
    let request = from_snapshot(named("pvc-2"), "snap-0123456789abcdef0");
    refused(world.create(request).await, "NotFound", "snap-0123456789abcdef0");
    assert!(world.volumes().await.is_empty());
}

/// So the orchestrator can choose another zone.
#[tokio::test(start_paused = true)]
async fn quota_or_full_zone_is_resource_exhausted() {
    let world = World::start().await;
    world.ec2.fail_next(Action::CreateVolume, ErrorClass::LimitExceeded(Limit::Volumes), false);
    refused(world.create(in_zone(named("pvc-1"), "us-west-2a")).await, "ResourceExhausted", "quota");
    world.ec2.fail_next(Action::CreateVolume, ErrorClass::InsufficientCapacity, false);
    refused(world.create(in_zone(named("pvc-2"), "us-west-2a")).await, "ResourceExhausted", "capacity");
    assert!(world.volumes().await.is_empty());
}

/// Invalid credentials are Unauthenticated, and a missing permission is PermissionDenied. Each message has a next step.
#[tokio::test(start_paused = true)]
async fn invalid_credentials_and_missing_permissions_are_named() {
    let world = World::start().await;
    world.ec2.fail_next(Action::CreateVolume, ErrorClass::Unauthenticated, false);
    refused(world.create(in_zone(named("pvc-1"), "us-west-2a")).await, "Unauthenticated", "credentials");
    world.ec2.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    refused(world.create(in_zone(named("pvc-1"), "us-west-2a")).await, "PermissionDenied", "IAM policy");
    assert!(world.volumes().await.is_empty());
}

/// The sender of the call advises on errors before sending, so `ebs-cloud` adds no advice.
#[tokio::test(start_paused = true)]
async fn request_that_was_not_sent_has_one_next_step() {
    let world = World::start().await;
    world.ec2.fail_next(Action::CreateVolume, ErrorClass::NotSent, false);
    let error = world.create(in_zone(named("pvc-1"), "us-west-2a")).await.expect_err("not sent");
    assert_eq!(error.code, "Unavailable", "{error:?}");
    assert!(error.message.contains("EC2 was not called"), "{error:?}");
    assert!(world.volumes().await.is_empty());
    assert!(!error.message.contains("name resolution"), "{error:?}");
}

/// The code is PermissionDenied, and the message names the account.
#[tokio::test(start_paused = true)]
async fn state_of_the_account_is_not_blamed_on_iam() {
    let world = World::start().await;
    world.ec2.fail_next(Action::CreateVolume, ErrorClass::AccountState, false);
    let error = world.create(in_zone(named("pvc-1"), "us-west-2a")).await.expect_err("refused");
    assert_eq!(error.code, "PermissionDenied", "{error:?}");
    assert!(error.message.contains("account") && !error.message.contains("IAM"), "{error:?}");
    assert!(world.volumes().await.is_empty());
}

/// It also succeeds for an invalid ID.
#[tokio::test(start_paused = true)]
async fn delete_volume_is_idempotent_and_accepts_old_handles() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.delete(&format!("aws://us-west-2a/{volume}")).await.expect("deleted");
    world.delete(&volume).await.expect("gone already");
    world.delete("vol-0123456789abcdef0").await.expect("never was");
    world.delete("not an id of EC2").await.expect("names nothing");
    refused(world.delete("").await, "InvalidArgument", "volume_id");
    let left: Vec<_> = world.volumes().await.into_iter().filter(|v| !v.state.starts_with("delet")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The code is FailedPrecondition.
#[tokio::test(start_paused = true)]
async fn volume_in_use_is_not_deleted() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.publish(&volume, world.here.as_str()).await.expect("attached");
    refused(world.delete(&volume).await, "FailedPrecondition", &volume);
    assert_eq!(world.volumes().await[0].state, "in-use");
}

async fn expand(
    world: &World,
    volume: &str,
    range: Option<CapacityRange>,
    capability: Option<VolumeCapability>,
) -> Result<ControllerExpandVolumeResponse, Refused> {
    let request = ControllerExpandVolumeRequest {
        volume_id: volume.to_owned(),
        capacity_range: range,
        volume_capability: capability,
        ..Default::default()
    };
    let answer = world.service.controller_expand_volume(Request::new(request)).await;
    answer.map(Response::into_inner).map_err(Refused::from)
}

fn bytes(required_bytes: i64, limit_bytes: i64) -> Option<CapacityRange> {
    Some(CapacityRange { required_bytes, limit_bytes })
}

/// The response has the real size. A block volume needs no expansion on the node.
#[tokio::test(start_paused = true)]
async fn volume_grows_to_whole_gib_and_never_shrinks() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let grown = expand(&world, &volume, bytes(7 * GIB + 1, 0), Some(mount("xfs"))).await.expect("grows");
    assert_eq!((grown.capacity_bytes, grown.node_expansion_required), (8 * GIB, true));
    let raw = expand(&world, &volume, bytes(8 * GIB, 0), Some(block(Mode::SingleNodeWriter))).await.expect("is");
    assert_eq!((raw.capacity_bytes, raw.node_expansion_required), (8 * GIB, false));
    let less = expand(&world, &volume, bytes(GIB, 0), None).await.expect("is larger already");
    assert_eq!((less.capacity_bytes, less.node_expansion_required), (8 * GIB, true));
    assert_eq!(world.mutations(), [Action::CreateVolume, Action::ModifyVolume]);
}

/// Each fault has its own code.
#[tokio::test(start_paused = true)]
async fn invalid_expansion_is_refused_with_a_reason() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.ec2.clear_calls();
    refused(expand(&world, "", bytes(GIB, 0), None).await, "InvalidArgument", "volume_id");
    refused(expand(&world, "local-ebs://dev/x", bytes(GIB, 0), None).await, "InvalidArgument", "node-local");
    refused(expand(&world, &volume, None, None).await, "InvalidArgument", "capacity_range");
    refused(expand(&world, &volume, bytes(0, 0), None).await, "InvalidArgument", "above 0");
    refused(expand(&world, &volume, bytes(5 * GIB + 1, 5 * GIB + 2), None).await, "OutOfRange", "limit_bytes");
    refused(expand(&world, "disk-7", bytes(GIB, 0), None).await, "NotFound", "disk-7");
    assert_eq!(world.ec2.calls(), []);
    let missing = "vol-0123456789abcdef0";
    refused(expand(&world, missing, bytes(GIB, 0), None).await, "NotFound", missing);
    assert_eq!(world.mutations(), []);
}

async fn validate(
    world: &World,
    volume: &str,
    capabilities: Vec<VolumeCapability>,
) -> Result<ValidateVolumeCapabilitiesResponse, Refused> {
    let request = ValidateVolumeCapabilitiesRequest {
        volume_id: volume.to_owned(),
        volume_capabilities: capabilities,
        parameters: map(&[("type", "gp3")]),
        ..Default::default()
    };
    let answer = world.service.validate_volume_capabilities(Request::new(request)).await;
    answer.map(Response::into_inner).map_err(Refused::from)
}

/// A missing volume is NotFound.
#[tokio::test(start_paused = true)]
async fn validation_confirms_only_supported_capabilities() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let good = vec![mount("ext4"), block(Mode::SingleNodeWriter)];
    let confirmed = validate(&world, &volume, good.clone()).await.expect("exists").confirmed.expect("supported");
    assert_eq!(confirmed.volume_capabilities, good);
    assert!(confirmed.parameters.is_empty() && confirmed.volume_context.is_empty());
    let bad = validate(&world, &volume, vec![mount("ext4"), block(Mode::MultiNodeReaderOnly)]).await.expect("exists");
    assert!(bad.confirmed.is_none() && bad.message.contains("MULTI_NODE_READER_ONLY"), "{bad:?}");
    refused(validate(&world, "", good.clone()).await, "InvalidArgument", "volume_id");
    refused(validate(&world, &volume, Vec::new()).await, "InvalidArgument", "capability");
    refused(validate(&world, "vol-0123456789abcdef0", good.clone()).await, "NotFound", "vol-0123456789abcdef0");
    refused(validate(&world, "disk-7", good).await, "NotFound", "disk-7");
}

#[tokio::test(start_paused = true)]
async fn unknown_volume_type_is_sent_to_ec2_with_its_numbers() {
    let world = World::start().await;
    let request = with_parameters(named("pvc-1"), &[("type", "gp9"), ("iops", "1000000"), ("throughput", "9000")]);
    refused(world.create(request).await, "InvalidArgument", "gp9");
    let asked = world.ec2.calls().into_iter().find_map(|call| match call.request {
        ebs_sim::api::Call::CreateVolume(request) if !request.dry_run => Some(request),
        _ => None,
    });
    let asked = asked.expect("EC2 was asked");
    assert_eq!(
        (asked.volume_type.as_deref(), asked.iops, asked.throughput),
        (Some("gp9"), Some(1_000_000), Some(9000))
    );
}

//! Tests creation, deletion, expansion, validation and lists of volumes.

use ebs_ec2::{CreateVolume, ErrorClass, Gib, Place, VolumeType, Volumes as _, ZoneName};

use super::*;

/// The topology of the volume is its zone.
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
    assert_eq!((got.capacity_bytes, &got.volume_context), (8 * GIB, &map(&[("inodesize", "512")])));
    assert_eq!(got.accessible_topology.len(), 1);
    assert_eq!(got.accessible_topology[0].segments, map(&[("topology.kubernetes.io/zone", "us-west-2b")]));
    let volumes = world.volumes().await;
    let [volume] = volumes.as_slice() else { panic!("{volumes:?}") };
    assert_eq!((volume.id.as_str(), volume.zone.as_str()), (got.volume_id.as_str(), "us-west-2b"));
    assert_eq!((volume.volume_type.as_str(), volume.size_gib, volume.iops), ("gp3", 8, Some(4000)));
    assert!(volume.throughput == Some(250) && volume.encrypted && !volume.multi_attach);
    for (key, value) in [("CSIVolumeName", "pvc-1"), ("team", "data"), ("ebs.csi.aws.com/cluster", "true")] {
        assert_eq!(volume.tags[key], value);
    }
}

/// The requests set, for example, both IOPS and IOPS per GiB.
#[tokio::test(start_paused = true)]
async fn invalid_create_request_is_refused_before_any_ec2_call() {
    let world = World::start().await;
    let size = |required, limit| CreateVolumeRequest { capacity_range: bytes(required, limit), ..named("pvc-1") };
    let class = |parameters: &[(&str, &str)]| with_parameters(named("pvc-1"), parameters);
    let used = |capability| with_capability(named("pvc-1"), capability);
    let rows = [
        (named(""), "InvalidArgument", "name"),
        (CreateVolumeRequest { volume_capabilities: Vec::new(), ..named("pvc-1") }, "InvalidArgument", "capability"),
        (used(block(Mode::MultiNodeReaderOnly)), "InvalidArgument", "MULTI_NODE_READER_ONLY"),
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
        (used(block(Mode::MultiNodeMultiWriter)), "InvalidArgument", "io2"),
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

type Mend = fn(&mut CreateVolumeRequest);

/// The driver checks the name first, then capabilities, size, parameters, parameters of the attributes class, tags,
/// formatting, source and topology.
#[tokio::test(start_paused = true)]
async fn create_volume_reports_the_first_of_several_faults() {
    let world = World::start().await;
    let parameters = [
        ("tipe", "gp3"),
        ("bytesPerInode", "8192"),
        ("ext4ClusterSize", "65536"),
        ("tagSpecification_1", "CSIVolumeName=x"),
    ];
    let mut request = CreateVolumeRequest {
        volume_capabilities: Vec::new(),
        capacity_range: bytes(-1, 0),
        mutable_parameters: map(&[("encrypted", "true")]),
        ..from_snapshot(in_zone(with_parameters(named(""), &parameters), "Mars"), "")
    };
    let faults: [(&str, Mend); 11] = [
        ("no name", |r| r.name = "pvc-1".to_owned()),
        ("no volume capability", |r| r.volume_capabilities = vec![block(Mode::MultiNodeReaderOnly)]),
        ("MULTI_NODE_READER_ONLY", |r| r.volume_capabilities = vec![mount("xfs")]),
        ("required_bytes", |r| r.capacity_range = None),
        ("tipe", |r| drop(r.parameters.remove("tipe"))),
        ("encrypted", |r| r.mutable_parameters.clear()),
        ("reserved", |r| drop(r.parameters.remove("tagSpecification_1"))),
        ("bytesperinode", |r| r.volume_capabilities = vec![mount("ext4")]),
        ("ext4bigalloc", |r| drop(r.parameters.insert("ext4BigAlloc".to_owned(), "true".to_owned()))),
        ("blank volume", |r| r.volume_content_source = None),
        ("Mars", |r| r.accessibility_requirements = None),
    ];
    for (says, mend) in faults {
        refused(world.create(request.clone()).await, "InvalidArgument", says);
        mend(&mut request);
    }
    assert_eq!(world.ec2.calls(), []);
    world.create(request).await.expect("nothing is left to mend");
}

/// The errors are rejected credentials or permissions, a call that was not sent, and an account in a bad state. Each
/// has its own code, and a message with one next step that fits the cause.
#[tokio::test(start_paused = true)]
async fn message_of_a_rejected_creation_has_one_next_step() {
    let world = World::start().await;
    for (class, code, says, not) in [
        (ErrorClass::Unauthenticated, "Unauthenticated", "credentials", "IAM policy"),
        (ErrorClass::Unauthorized, "PermissionDenied", "IAM policy", "name resolution"),
        // If a call was not sent, the advice comes from the component that sends calls.
        (ErrorClass::NotSent, "Unavailable", "EC2 was not called", "name resolution"),
        (ErrorClass::AccountState, "PermissionDenied", "account", "IAM"),
    ] {
        world.ec2.fail_next(Action::CreateVolume, class, false);
        let error = world.create(in_zone(named("pvc-1"), HERE)).await;
        assert!(!error.as_ref().is_err_and(|error| error.message.contains(not)), "{class:?}: {error:?}");
        refused(error, code, says);
    }
    assert!(world.volumes().await.is_empty());
}

/// The driver accepts `fsType` and `blockExpress`.
#[tokio::test(start_paused = true)]
async fn deprecated_parameters_have_no_effect() {
    let world = World::start().await;
    let plain = world.create(named("pvc-1")).await;
    let parameters = [("fsType", "zfs"), ("blockExpress", "maybe")];
    assert_eq!(world.create(with_parameters(named("pvc-1"), &parameters)).await, plain);
    assert_eq!((plain.is_ok(), world.volumes().await.len()), (true, 1));
}

/// DeleteVolume also succeeds for an invalid ID.
#[tokio::test(start_paused = true)]
async fn delete_volume_is_idempotent_and_accepts_old_handles() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    for handle in [&format!("aws://us-west-2a/{volume}"), &volume, NO_VOLUME, "not an id of EC2"] {
        world.delete(handle).await.expect("no such volume is left");
    }
    refused(world.delete("").await, "InvalidArgument", "volume_id");
    assert!(world.volumes().await.iter().all(|v| v.state.starts_with("delet")));
}

/// The response has the actual size. A block volume needs no expansion on the node.
#[tokio::test(start_paused = true)]
async fn volume_grows_to_whole_gib_and_never_shrinks() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    for (required, capability, on_node) in [
        (7 * GIB + 1, Some(mount("xfs")), true),
        (8 * GIB, Some(block(Mode::SingleNodeWriter)), false),
        (GIB, None, true),
    ] {
        let grown = world.expand(&volume, bytes(required, 0), capability).await.expect("grows");
        assert_eq!((grown.capacity_bytes, grown.node_expansion_required), (8 * GIB, on_node));
    }
    assert_eq!(world.mutations(), [Action::CreateVolume, Action::ModifyVolume]);
}

/// Each invalid request has its own code.
#[tokio::test(start_paused = true)]
async fn invalid_expansion_is_refused_with_a_reason() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.ec2.clear_calls();
    for (volume, range, code, says) in [
        ("", bytes(GIB, 0), "InvalidArgument", "volume_id"),
        ("local-ebs://dev/x", bytes(GIB, 0), "InvalidArgument", "node-local"),
        (&volume, None, "InvalidArgument", "capacity_range"),
        (&volume, bytes(0, 0), "InvalidArgument", "above 0"),
        (&volume, bytes(5 * GIB + 1, 5 * GIB + 2), "OutOfRange", "limit_bytes"),
        ("disk-7", bytes(GIB, 0), "NotFound", "disk-7"),
    ] {
        refused(world.expand(volume, range, None).await, code, says);
    }
    assert_eq!(world.ec2.calls(), []);
    refused(world.expand(NO_VOLUME, bytes(GIB, 0), None).await, "NotFound", NO_VOLUME);
    assert_eq!(world.mutations(), []);
}

/// For a missing volume, the code is NotFound.
#[tokio::test(start_paused = true)]
async fn validation_confirms_only_supported_capabilities() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let validate = async |volume: &str, volume_capabilities: &[VolumeCapability]| {
        let request = ValidateVolumeCapabilitiesRequest {
            volume_id: volume.to_owned(),
            volume_capabilities: volume_capabilities.to_vec(),
            parameters: map(&[("type", "gp3")]),
            ..Default::default()
        };
        ask!(world, validate_volume_capabilities, request)
    };
    let good = [mount("ext4"), block(Mode::SingleNodeWriter)];
    let confirmed = validate(&volume, &good).await.expect("exists").confirmed.expect("supported");
    assert_eq!(confirmed.volume_capabilities, good);
    assert!(confirmed.parameters.is_empty() && confirmed.volume_context.is_empty());
    let bad = validate(&volume, &[mount("ext4"), block(Mode::MultiNodeReaderOnly)]).await.expect("exists");
    assert!(bad.confirmed.is_none() && bad.message.contains("MULTI_NODE_READER_ONLY"), "{bad:?}");
    refused(validate("", &good).await, "InvalidArgument", "volume_id");
    refused(validate(&volume, &[]).await, "InvalidArgument", "capability");
    for missing in [NO_VOLUME, "disk-7"] {
        refused(validate(missing, &good).await, "NotFound", missing);
    }
}

/// The code is Aborted for an invalid token, and InvalidArgument for a negative length.
#[tokio::test(start_paused = true)]
async fn list_volumes_returns_only_volumes_with_the_driver_tag() {
    let world = World::start().await;
    let place = Place::Zone(ZoneName::parse(HERE).expect("a zone"));
    let foreign = CreateVolume::plain("theirs", place, Gib(1), VolumeType::Gp3);
    world.ec2.by_test().create_volume(&foreign).await.expect("created");
    let mine = world.volume("pvc-1").await;
    let list = async |max_entries, token: &str| {
        ask!(world, list_volumes, ListVolumesRequest { max_entries, starting_token: token.to_owned() })
    };
    let listed = list(0, "").await.expect("lists");
    assert_eq!((listed.entries.len(), listed.next_token.as_str()), (1, ""));
    let volume = listed.entries[0].volume.as_ref().expect("a volume");
    assert_eq!((volume.volume_id.as_str(), volume.capacity_bytes), (mine.as_str(), 4 * GIB));
    assert_eq!(volume.accessible_topology[0].segments["topology.kubernetes.io/zone"], HERE);
    refused(list(0, "not a token").await, "Aborted", "token");
    refused(list(-1, "").await, "InvalidArgument", "max_entries");
}

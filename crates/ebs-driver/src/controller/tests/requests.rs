//! Effects of requests that no other file tests.

use csi_proto::csi::volume_content_source::{SnapshotSource, Type as SourceType};

use super::snapshots::take;
use super::*;

type Mend = fn(&mut CreateVolumeRequest);

/// The order is: name, capabilities, size, parameters, parameters of the attributes class, tags, formatting, source,
/// topology.
#[tokio::test(start_paused = true)]
async fn first_of_several_faults_is_reported() {
    let world = World::start().await;
    let parameters = [
        ("tipe", "gp3"),
        ("bytesPerInode", "8192"),
        ("ext4ClusterSize", "65536"),
        ("tagSpecification_1", "CSIVolumeName=x"),
    ];
    let no_source = SourceType::Snapshot(SnapshotSource::default());
    let mut request = CreateVolumeRequest {
        volume_capabilities: Vec::new(),
        capacity_range: Some(CapacityRange { required_bytes: -1, limit_bytes: 0 }),
        mutable_parameters: map(&[("encrypted", "true")]),
        volume_content_source: Some(csi::VolumeContentSource { r#type: Some(no_source) }),
        ..in_zone(with_parameters(named(""), &parameters), "Mars")
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
    world.ec2.clear_calls();
    for (says, mend) in faults {
        refused(world.create(request.clone()).await, "InvalidArgument", says);
        mend(&mut request);
    }
    assert_eq!(world.ec2.calls(), []);
    world.create(request).await.expect("nothing is left to mend");
}

/// The order is: volume, node, capability.
#[tokio::test(start_paused = true)]
async fn first_of_several_faults_of_a_publish_is_reported() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let mut request = ControllerPublishVolumeRequest::default();
    refused(world.publish_as(request.clone()).await, "InvalidArgument", "volume_id");
    request.volume_id = volume;
    refused(world.publish_as(request.clone()).await, "InvalidArgument", "node_id");
    request.node_id = world.here.to_string();
    refused(world.publish_as(request.clone()).await, "InvalidArgument", "capability");
    request.volume_capability = Some(block(Mode::SingleNodeReaderOnly));
    refused(world.publish_as(request.clone()).await, "InvalidArgument", "SINGLE_NODE_READER_ONLY");
    request.volume_capability = Some(mount("zfs"));
    refused(world.publish_as(request.clone()).await, "InvalidArgument", "zfs");
    request.volume_capability = Some(block(Mode::SingleNodeWriter));
    world.publish_as(request).await.expect("attached");
}

#[tokio::test(start_paused = true)]
async fn kms_key_encrypts_even_if_encrypted_is_false() {
    let world = World::start().await;
    world.ec2.declare(ebs_sim::iam::Extra::Kms);
    let key = "arn:aws:kms:us-west-2:123456789012:key/0123abcd-0123-0123-0123-0123456789ab";
    let parameters = [("encrypted", "false"), ("kmsKeyId", key)];
    world.create(with_parameters(named("pvc-1"), &parameters)).await.expect("created");
    let volumes = world.volumes().await;
    assert_eq!((volumes[0].encrypted, volumes[0].kms_key_id.as_deref()), (true, Some(key)));
}

/// `fsType` and `blockExpress` are accepted.
#[tokio::test(start_paused = true)]
async fn deprecated_parameters_have_no_effect() {
    let world = World::start().await;
    let plain = world.create(named("pvc-1")).await.expect("created");
    let parameters = [("fsType", "zfs"), ("blockExpress", "maybe")];
    let with = world.create(with_parameters(named("pvc-1"), &parameters)).await.expect("the same request");
    assert_eq!(plain, with);
    assert_eq!(world.volumes().await.len(), 1);
}

/// ID, source, size, time and readiness are the same.
#[tokio::test(start_paused = true)]
async fn listed_snapshot_matches_the_response_of_its_creation() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    take(&world, "snapshot-1", &volume, &[]).await.expect("taken");
    let told = take(&world, "snapshot-1", &volume, &[]).await.expect("found");
    assert!(told.ready_to_use && told.size_bytes == 4 * GIB && told.creation_time.is_some());
    let request = ListSnapshotsRequest { snapshot_id: told.snapshot_id.clone(), ..Default::default() };
    let by_id = world.service.list_snapshots(Request::new(request)).await.expect("lists").into_inner();
    let all = world.service.list_snapshots(empty()).await.expect("lists").into_inner();
    for listed in [by_id, all] {
        let snapshots: Vec<_> = listed.entries.into_iter().filter_map(|entry| entry.snapshot).collect();
        assert_eq!(snapshots, std::slice::from_ref(&told));
    }
}

/// While a snapshot is created, another request for its name is Aborted, and an equal request joins. Two simultaneous
/// deletes of a snapshot also join.
#[tokio::test(start_paused = true)]
async fn snapshots_of_one_name_are_not_created_concurrently() {
    let world = World::start().await;
    let (one, other) = (world.volume("pvc-1").await, world.volume("pvc-2").await);
    let (first, equal, different) = tokio::join!(
        take(&world, "snapshot-1", &one, &[]),
        take(&world, "snapshot-1", &one, &[]),
        take(&world, "snapshot-1", &other, &[]),
    );
    let first = first.expect("taken");
    assert_eq!(equal.expect("joined"), first);
    refused(different, "Aborted", "snapshot-1");
    assert_eq!(world.ec2.count(Action::CreateSnapshot), 1);
    let request = || DeleteSnapshotRequest { snapshot_id: first.snapshot_id.clone(), ..Default::default() };
    let delete = async || world.service.delete_snapshot(world.over(request())).await.map_err(Refused::from);
    let (a, b) = tokio::join!(delete(), delete());
    a.expect("deleted");
    b.expect("joined");
    assert_eq!(world.ec2.count(Action::DeleteSnapshot), 1);
}

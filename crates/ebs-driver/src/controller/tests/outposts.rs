use super::*;

const ARN: &str = "arn:aws:outposts:us-west-2:123456789012:outpost/op-0123456789abcdef0";
const ZONE: (&str, &str) = ("topology.kubernetes.io/zone", HERE);
const OUTPOST: (&str, &str) = ("topology.ebs.csi.aws.com/outpost-id", ARN);
/// The topology segments that nodes on an Outpost report.
const PARTS: [(&str, &str); 5] = [
    ZONE,
    ("topology.ebs.csi.aws.com/partition", "aws"),
    ("topology.ebs.csi.aws.com/region", "us-west-2"),
    ("topology.ebs.csi.aws.com/account-id", "123456789012"),
    ("topology.ebs.csi.aws.com/outpost-id", "op-0123456789abcdef0"),
];

fn segments(volume: &csi::Volume) -> &HashMap<String, String> {
    assert_eq!(volume.accessible_topology.len(), 1);
    &volume.accessible_topology[0].segments
}

/// The response and lists contain the zone and the four segments that the Outpost's nodes report.
#[tokio::test(start_paused = true)]
async fn outpost_volume_has_the_topology_segments_of_outpost_nodes() {
    let world = World::start().await;
    for (name, place) in [("pvc-1", &[ZONE, OUTPOST][..]), ("pvc-2", &PARTS), ("pvc-1", &PARTS)] {
        let made = world.create(in_place(named(name), place)).await.expect("created or found");
        assert_eq!(segments(&made), &map(&PARTS));
    }
    let volumes = world.volumes().await;
    assert!(volumes.len() == 2 && volumes.iter().all(|v| v.outpost_arn.as_deref() == Some(ARN)), "{volumes:?}");
    let listed = ask!(world, list_volumes, ListVolumesRequest::default()).expect("lists");
    assert_eq!(segments(listed.entries[0].volume.as_ref().expect("a volume")), &map(&PARTS));
}

/// The driver does not mix a preferred term in the region with a required term on an Outpost.
#[tokio::test(start_paused = true)]
async fn zone_and_outpost_come_from_the_same_topology_term() {
    let world = World::start().await;
    let term = |segments: &[(&str, &str)]| csi::Topology { segments: map(segments) };
    let region = [("topology.kubernetes.io/zone", "us-west-2b")];
    let requirement =
        csi::TopologyRequirement { preferred: vec![term(&region)], requisite: vec![term(&PARTS), term(&region)] };
    let request = CreateVolumeRequest { accessibility_requirements: Some(requirement), ..named("pvc-1") };
    assert_eq!(segments(&world.create(request).await.expect("created")), &map(&region));
    assert_eq!(world.volumes().await[0].outpost_arn, None);
}

/// A request that requires the source's zone without its Outpost, or another Outpost, gets ResourceExhausted before the
/// driver asks EC2 to copy the volume.
#[tokio::test(start_paused = true)]
async fn clone_is_created_only_on_the_outpost_of_its_source() {
    let world = World::start().await;
    let regional = world.volume("pvc-1").await;
    let local = world.create(in_place(named("pvc-2"), &PARTS)).await.expect("created").volume_id;
    let copy = |volume: &str, name: &str, place: &[(&str, &str)]| {
        world.create(from_volume(in_place(named(name), place), volume))
    };
    let other = [ZONE, (OUTPOST.0, "arn:aws:outposts:us-west-2:123456789012:outpost/op-0123456789abcdef1")];
    for (source, place, says) in [
        (&regional, &[ZONE, OUTPOST][..], HERE),
        (&local, &other, "op-0123456789abcdef0"),
        (&local, &[("topology.k8s.aws/zone-id", "usw2-az2")], "op-0123456789abcdef0"),
    ] {
        refused(copy(source, "pvc-3", place).await, "ResourceExhausted", says);
    }
    assert_eq!(world.ec2.count(Action::CopyVolumes), 0);
    let by_id = [("topology.k8s.aws/zone-id", "usw2-az1")];
    copy(&regional, "pvc-4", &by_id).await.expect("the zone's id is enough");
    // The request names the right Outpost, but EC2 does not copy volumes on Outposts.
    refused(copy(&local, "pvc-5", &PARTS).await, "InvalidArgument", "Outpost");
    assert_eq!(world.ec2.count(Action::CopyVolumes), 2);
}

/// The topology has the segments of the Outpost that EC2 names, even for a clone. If EC2 returns no zone or an invalid
/// Outpost ARN, the response has no topology.
#[tokio::test(start_paused = true)]
async fn volume_topology_comes_from_the_ec2_description() {
    use ebs_ec2::{Page, PageRequest, VolumeQuery, Volumes as _};
    let world = World::start().await;
    world.volume("pvc-1").await;
    let query = VolumeQuery::Tag { key: DriverName::VOLUME_NAME_TAG.to_owned(), values: vec!["pvc-1".to_owned()] };
    let Page { items, .. } = world.ec2.describe_volumes(&query, &PageRequest::default()).await.expect("lists");
    let mut volume = items.into_iter().find(|v| v.csi_name() == Some("pvc-1")).expect("the volume exists");
    let driver = DriverName::default();
    volume.outpost_arn = Some(ARN.to_owned());
    let place = |volume: &ebs_cloud::Volume| crate::topology::of_volume(volume, &driver);
    assert_eq!(place(&volume).expect("an ARN").expect("a zone").segments, map(&PARTS));
    volume.outpost_arn = Some("op-0123456789abcdef0".to_owned());
    assert!(place(&volume).is_err());
    (volume.zone, volume.outpost_arn) = (None, None);
    assert_eq!(place(&volume), Ok(None));
}

#[tokio::test(start_paused = true)]
async fn local_snapshot_is_stored_and_restored_on_its_outpost() {
    let world = World::start().await;
    let volume = world.create(in_place(named("pvc-1"), &PARTS)).await.expect("created").volume_id;
    let snapshot = world.take("snapshot-1", &volume, &[("outpostArn", ARN)]).await.expect("taken").snapshot_id;
    assert_eq!(world.ec2.engine().snapshot_of_state().await.snapshots[0].outpost_arn.as_deref(), Some(ARN));
    let restore = |name: &str, place: &[(&str, &str)]| from_snapshot(in_place(named(name), place), &snapshot);
    let restored = world.create(restore("pvc-2", &PARTS)).await.expect("restored");
    assert_eq!(segments(&restored), &map(&PARTS));
    refused(world.create(restore("pvc-3", &[ZONE])).await, "InvalidArgument", ARN);
    let elsewhere = world.volume("pvc-4").await;
    refused(world.take("snapshot-2", &elsewhere, &[("outpostArn", ARN)]).await, "InvalidArgument", "Outpost");
}

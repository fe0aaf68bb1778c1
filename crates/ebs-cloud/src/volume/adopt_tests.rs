use ebs_ec2::{Gib, IopsRequest, SnapshotId, VolumeId, VolumeType, ZoneName};

use super::super::plan::tests::volume;
use super::*;
use crate::{CapacityRequest, Term, Topology};

fn tags() -> Tags {
    [
        ("CSIVolumeName", "pvc-1"),
        ("ebs.csi.aws.com/cluster", "true"),
        ("kubernetes.io/cluster/blue", "owned"),
        ("KubernetesCluster", "blue"),
        ("ebs.csi.aws.com/cluster-name", "blue"),
        ("team", "storage"),
    ]
    .iter()
    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
    .collect()
}

fn spec() -> VolumeSpec {
    VolumeSpec {
        name: "pvc-1".to_owned(),
        capacity: CapacityRequest { required: Some(Gib(10)), fallback: Gib(100), limit: None },
        volume_type: VolumeType::Gp3,
        iops: IopsRequest::Default,
        raise_iops_to_min: false,
        throughput: None,
        encrypted: false,
        kms_key_id: None,
        source: Source::Blank,
        topology: Topology::default(),
        multi_attach: false,
        initialization_rate: None,
        tags: tags(),
    }
}

fn found() -> Volume {
    Volume { tags: tags(), ..volume("us-west-2a", "usw2-az1") }
}

fn is_adopted(spec: &VolumeSpec, found: &Volume) -> bool {
    differences(&DriverName::default(), spec, found).is_empty()
}

#[test]
fn matching_volume_is_adopted() {
    assert!(is_adopted(&spec(), &found()));
    let other_user_tag = Tags::from([("team".to_owned(), "network".to_owned())]);
    let mut retagged = found();
    retagged.tags.extend(other_user_tag);
    assert!(is_adopted(&spec(), &retagged), "user tags do not identify the owner");
    let by_default = Volume { encrypted: true, kms_key_id: Some("arn:aws:kms:key/1".into()), ..found() };
    assert!(is_adopted(&spec(), &by_default), "the account's default may encrypt a volume");
}

/// The ownership tags are the managed tag, `kubernetes.io/cluster/*`, `KubernetesCluster` and the cluster-name tag.
#[test]
fn volume_with_other_ownership_tags_is_not_adopted() {
    for key in
        ["ebs.csi.aws.com/cluster", "kubernetes.io/cluster/blue", "KubernetesCluster", "ebs.csi.aws.com/cluster-name"]
    {
        let mut without = found();
        without.tags.remove(key);
        assert!(!is_adopted(&spec(), &without), "adopted without {key}");
        let mut other = found();
        other.tags.insert(key.to_owned(), "green".to_owned());
        assert!(!is_adopted(&spec(), &other), "adopted with another {key}");
    }
}

/// Adoption compares source, zone, size range, type, encryption, multi-attach and Outpost.
#[test]
fn volume_with_different_properties_is_not_adopted() {
    let snapshot = SnapshotId::parse("snap-1").unwrap();
    let other = VolumeId::parse("vol-2").unwrap();
    for different in [
        Volume { size: Gib(9), ..found() },
        Volume { volume_type: VolumeType::Gp2, ..found() },
        Volume { multi_attach: Some(true), ..found() },
        Volume { snapshot: Some(snapshot.clone()), ..found() },
        Volume { source_volume: Some(other), ..found() },
        Volume { outpost_arn: Some("arn".into()), ..found() },
    ] {
        assert!(!is_adopted(&spec(), &different), "{different:?}");
    }
    let limit = CapacityRequest { required: None, fallback: Gib(1), limit: Some(Gib(9)) };
    let elsewhere = vec![Term { zone: Some(ZoneName::parse("us-west-2b").unwrap()), ..Term::default() }];
    for different in [
        VolumeSpec { encrypted: true, ..spec() },
        VolumeSpec { kms_key_id: Some("alias/mine".to_owned()), ..spec() },
        VolumeSpec { source: Source::Snapshot(snapshot), ..spec() },
        VolumeSpec { capacity: limit, ..spec() },
        VolumeSpec { topology: Topology { preferred: elsewhere.clone(), requisite: elsewhere }, ..spec() },
    ] {
        assert!(!is_adopted(&different, &found()), "{different:?}");
    }
    let encrypted = Volume { encrypted: true, kms_key_id: Some("arn:aws:kms:us-west-2:1:key/abc-1".into()), ..found() };
    for (key, adopted) in [("abc-1", true), ("alias/mine", true), ("abc-2", false)] {
        let with_key = VolumeSpec { kms_key_id: Some(key.to_owned()), ..spec() };
        assert_eq!(is_adopted(&with_key, &encrypted), adopted, "{key}");
    }
}

#[test]
fn volume_on_an_outpost_is_adopted_only_for_that_outpost() {
    let on = |arn: &str| Volume { outpost_arn: Some(arn.to_owned()), ..found() };
    let term = Term {
        zone: Some(ZoneName::parse("us-west-2a").unwrap()),
        outpost_arn: Some("arn:1".to_owned()),
        ..Term::default()
    };
    let spec = VolumeSpec { topology: Topology { preferred: vec![term.clone()], requisite: vec![term] }, ..spec() };
    assert!(is_adopted(&spec, &on("arn:1")));
    assert!(!is_adopted(&spec, &on("arn:2")));
    assert!(!is_adopted(&spec, &found()));
}

#[test]
fn volume_at_the_size_limit_is_adopted() {
    let limited = |limit| VolumeSpec {
        capacity: CapacityRequest { required: Some(Gib(10)), fallback: Gib(10), limit: Some(Gib(limit)) },
        ..spec()
    };
    let of_size = |size| Volume { size: Gib(size), ..found() };
    for (size, limit, adopted) in [(12, 12, true), (13, 12, false), (10, 10, true), (9, 12, false)] {
        assert_eq!(is_adopted(&limited(limit), &of_size(size)), adopted, "{size} GiB, at most {limit}");
    }
}

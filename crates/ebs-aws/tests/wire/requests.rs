//! The complete requests of the client.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use ebs_ec2::{
    Action, AttachRequest, Attachments, CopyVolume, CreateSnapshot, CreateVolume, DetachRequest, DeviceName,
    ErrorClass, Gib, InstanceId, Instances, LockSnapshot, ModifyVolume, PageRequest, Place, SnapshotId, SnapshotQuery,
    Snapshots, Tags, VolumeId, VolumeQuery, VolumeType, Volumes, ZoneId, ZoneName, Zones,
};

use crate::model;
use crate::server::{Reply, Wire};

/// The API version.
const VERSION: &str = "2016-11-15";

fn vol(id: &str) -> VolumeId {
    VolumeId::parse(id).unwrap()
}

fn tags() -> Tags {
    Tags::from([("CSIVolumeName".into(), "pvc-1".into()), ("ebs.csi.aws.com/cluster".into(), "true".into())])
}

fn form(action: &str, fields: &[(&str, &str)]) -> BTreeMap<String, String> {
    let common = [("Action", action), ("Version", VERSION)];
    common.iter().chain(fields).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// Makes one call to a server that refuses it. Compares the request with the expected fields and with AWS's own model.
async fn sends(action: &str, fields: &[(&str, &str)], call: impl AsyncFnOnce(&Wire)) {
    let wire = Wire::answering([Reply::error(400, "DryRunOperation", "would have succeeded")]).await;
    call(&wire).await;
    let sent = wire.only_form();
    assert_eq!(sent, form(action, fields));
    model::check_request(&sent);
    assert_eq!(wire.seen.0.lock().unwrap().len(), 1, "the observer receives one call");
}

fn plain_volume() -> CreateVolume {
    CreateVolume {
        tags: tags(),
        ..CreateVolume::plain("token", Place::Zone(ZoneName::parse("us-west-2a").unwrap()), Gib(4), VolumeType::Gp3)
    }
}

const TAGS: [(&str, &str); 5] = [
    ("TagSpecification.1.ResourceType", "volume"),
    ("TagSpecification.1.Tag.1.Key", "CSIVolumeName"),
    ("TagSpecification.1.Tag.1.Value", "pvc-1"),
    ("TagSpecification.1.Tag.2.Key", "ebs.csi.aws.com/cluster"),
    ("TagSpecification.1.Tag.2.Value", "true"),
];

/// The other optional fields are sent only if given.
#[tokio::test]
async fn create_volume_always_sends_encryption_and_multi_attach() {
    let mut fields = vec![
        ("ClientToken", "token"),
        ("AvailabilityZone", "us-west-2a"),
        ("Size", "4"),
        ("VolumeType", "gp3"),
        ("MultiAttachEnabled", "false"),
        ("Encrypted", "false"),
    ];
    fields.extend(TAGS);
    sends("CreateVolume", &fields, async |wire| {
        wire.ec2.create_volume(&plain_volume()).await.unwrap_err();
    })
    .await;
}

/// A KMS key implies encryption. Numbers saturate at 32 bits.
#[tokio::test]
async fn create_volume_sends_every_given_field() {
    let mut fields = vec![
        ("ClientToken", "token"),
        ("AvailabilityZoneId", "usw2-az2"),
        ("Size", "2147483647"),
        ("VolumeType", "io2"),
        ("Iops", "2147483647"),
        ("Throughput", "500"),
        ("MultiAttachEnabled", "true"),
        ("Encrypted", "true"),
        ("KmsKeyId", "arn:aws:kms:us-west-2:1:key/k"),
        ("SnapshotId", "snap-1"),
        ("VolumeInitializationRate", "200"),
        ("OutpostArn", "arn:aws:outposts:us-west-2:1:outpost/op-1"),
        ("DryRun", "true"),
    ];
    fields.extend(TAGS);
    sends("CreateVolume", &fields, async |wire| {
        let request = CreateVolume {
            place: Place::ZoneId(ZoneId::parse("usw2-az2").unwrap()),
            size: Gib(u32::MAX),
            volume_type: VolumeType::Io2,
            iops: Some(u32::MAX),
            throughput: Some(500),
            kms_key_id: Some("arn:aws:kms:us-west-2:1:key/k".into()),
            snapshot: Some(SnapshotId::parse("snap-1").unwrap()),
            initialization_rate: Some(200),
            multi_attach: true,
            outpost_arn: Some("arn:aws:outposts:us-west-2:1:outpost/op-1".into()),
            dry_run: true,
            ..plain_volume()
        };
        let error = wire.ec2.create_volume(&request).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::DryRunSucceeded);
    })
    .await;
}

/// It always sends MultiAttachEnabled, and sends encryption and key only if requested.
#[tokio::test]
async fn copy_volumes_sends_its_fields_but_no_zone() {
    let mut fields = vec![
        ("ClientToken", "token"),
        ("SourceVolumeId", "vol-1"),
        ("Size", "8"),
        ("VolumeType", "gp3"),
        ("Iops", "4000"),
        ("Throughput", "250"),
        ("MultiAttachEnabled", "false"),
        ("Encrypted", "true"),
        ("KmsKeyId", "alias/mine"),
    ];
    fields.extend(TAGS);
    sends("CopyVolumes", &fields, async |wire| {
        let request = CopyVolume {
            client_token: "token".into(),
            source: vol("vol-1"),
            size: Gib(8),
            volume_type: VolumeType::Gp3,
            iops: Some(4000),
            throughput: Some(250),
            encrypted: true,
            kms_key_id: Some("alias/mine".into()),
            multi_attach: false,
            tags: tags(),
        };
        wire.ec2.copy_volume(&request).await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn copy_volumes_omits_missing_fields() {
    let fields = [
        ("ClientToken", "token"),
        ("SourceVolumeId", "vol-1"),
        ("Size", "8"),
        ("VolumeType", "io2"),
        ("MultiAttachEnabled", "true"),
    ];
    sends("CopyVolumes", &fields, async |wire| {
        let request = CopyVolume {
            client_token: "token".into(),
            source: vol("vol-1"),
            size: Gib(8),
            volume_type: VolumeType::Io2,
            iops: None,
            throughput: None,
            encrypted: false,
            kms_key_id: None,
            multi_attach: true,
            tags: Tags::new(),
        };
        wire.ec2.copy_volume(&request).await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn delete_volume_sends_only_the_id() {
    sends("DeleteVolume", &[("VolumeId", "vol-1")], async |wire| {
        wire.ec2.delete_volume(&vol("vol-1")).await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn attach_volume_sends_a_card_only_if_given() {
    let request = AttachRequest {
        volume: vol("vol-1"),
        instance: InstanceId::parse("i-1").unwrap(),
        device: DeviceName::new("/dev/xvdaa"),
        card: None,
    };
    let mut fields = vec![("VolumeId", "vol-1"), ("InstanceId", "i-1"), ("Device", "/dev/xvdaa")];
    sends("AttachVolume", &fields, async |wire| {
        wire.ec2.attach_volume(&request).await.unwrap_err();
    })
    .await;
    fields.push(("EbsCardIndex", "1"));
    sends("AttachVolume", &fields, async |wire| {
        wire.ec2.attach_volume(&AttachRequest { card: Some(1), ..request.clone() }).await.unwrap_err();
    })
    .await;
}

/// The request has volume and instance, and neither Force nor a device.
#[tokio::test]
async fn detach_volume_is_never_forced() {
    sends("DetachVolume", &[("VolumeId", "vol-1"), ("InstanceId", "i-1")], async |wire| {
        let request = DetachRequest { volume: vol("vol-1"), instance: InstanceId::parse("i-1").unwrap() };
        wire.ec2.detach_volume(&request).await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn modify_volume_sends_only_changes() {
    let mut request =
        ModifyVolume { volume: vol("vol-1"), size: Some(Gib(9)), volume_type: None, iops: None, throughput: None };
    sends("ModifyVolume", &[("VolumeId", "vol-1"), ("Size", "9")], async |wire| {
        wire.ec2.modify_volume(&request).await.unwrap_err();
    })
    .await;
    request = ModifyVolume {
        size: None,
        volume_type: Some(VolumeType::Io2),
        iops: Some(5000),
        throughput: Some(300),
        ..request
    };
    let fields = [("VolumeId", "vol-1"), ("VolumeType", "io2"), ("Iops", "5000"), ("Throughput", "300")];
    sends("ModifyVolume", &fields, async |wire| {
        wire.ec2.modify_volume(&request).await.unwrap_err();
    })
    .await;
}

/// The request has one tag specification.
#[tokio::test]
async fn create_snapshot_sends_description_and_tags() {
    let mut fields = vec![("VolumeId", "vol-1"), ("Description", "words")];
    fields.extend(TAGS);
    fields.iter_mut().find(|(k, _)| k.ends_with("ResourceType")).unwrap().1 = "snapshot";
    sends("CreateSnapshot", &fields, async |wire| {
        let request =
            CreateSnapshot { volume: vol("vol-1"), description: "words".into(), outpost_arn: None, tags: tags() };
        wire.ec2.create_snapshot(&request).await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn create_snapshot_sends_a_given_outpost_and_no_empty_tags() {
    let outpost = "arn:aws:outposts:us-west-2:1:outpost/op-1";
    let fields = [("VolumeId", "vol-1"), ("Description", "words"), ("OutpostArn", outpost)];
    sends("CreateSnapshot", &fields, async |wire| {
        let outpost_arn = Some(outpost.to_owned());
        let request =
            CreateSnapshot { volume: vol("vol-1"), description: "words".into(), outpost_arn, tags: Tags::new() };
        wire.ec2.create_snapshot(&request).await.unwrap_err();
    })
    .await;
}

/// The reply has code and message of failed zones.
#[tokio::test]
async fn fast_restores_are_enabled_for_one_snapshot_in_all_zones() {
    let fields =
        [("SourceSnapshotId.1", "snap-1"), ("AvailabilityZone.1", "us-west-2a"), ("AvailabilityZone.2", "us-west-2b")];
    sends("EnableFastSnapshotRestores", &fields, async |wire| {
        let zones = ["us-west-2a", "us-west-2b"].map(|zone| ZoneName::parse(zone).unwrap());
        let snapshot = SnapshotId::parse("snap-1").unwrap();
        wire.ec2.enable_fast_snapshot_restores(&snapshot, &zones).await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn lock_snapshot_sends_only_given_fields() {
    let nothing = LockSnapshot {
        snapshot: SnapshotId::parse("snap-1").unwrap(),
        mode: None,
        cool_off_hours: None,
        expiration: None,
        duration_days: None,
    };
    sends("LockSnapshot", &[("SnapshotId", "snap-1")], async |wire| {
        wire.ec2.lock_snapshot(&nothing).await.unwrap_err();
    })
    .await;
    let everything = LockSnapshot {
        mode: Some("compliance".into()),
        cool_off_hours: Some(24),
        expiration: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045)),
        duration_days: Some(365),
        ..nothing
    };
    let fields = [
        ("SnapshotId", "snap-1"),
        ("LockMode", "compliance"),
        ("CoolOffPeriod", "24"),
        ("ExpirationDate", "2026-01-02T03:04:05Z"),
        ("LockDuration", "365"),
    ];
    sends("LockSnapshot", &fields, async |wire| {
        wire.ec2.lock_snapshot(&everything).await.unwrap_err();
    })
    .await;
}

/// EC2 has no filter for ids there, and accepts no MaxResults with them.
#[tokio::test]
async fn describe_volume_status_sends_bare_ids() {
    let fields = [("VolumeId.1", "vol-1"), ("VolumeId.2", "vol-2"), ("NextToken", "next")];
    sends("DescribeVolumeStatus", &fields, async |wire| {
        wire.ec2.describe_volume_status(&[vol("vol-1"), vol("vol-2")], &page()).await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn delete_snapshot_sends_the_id() {
    sends("DeleteSnapshot", &[("SnapshotId", "snap-1")], async |wire| {
        wire.ec2.delete_snapshot(&SnapshotId::parse("snap-1").unwrap()).await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn create_tags_sends_values_and_delete_tags_does_not() {
    let fields = [
        ("ResourceId.1", "vol-1"),
        ("Tag.1.Key", "CSIVolumeName"),
        ("Tag.1.Value", "pvc-1"),
        ("Tag.2.Key", "ebs.csi.aws.com/cluster"),
        ("Tag.2.Value", "true"),
    ];
    sends("CreateTags", &fields, async |wire| {
        wire.ec2.create_tags("vol-1", &tags()).await.unwrap_err();
    })
    .await;
    let fields = [("ResourceId.1", "vol-1"), ("Tag.1.Key", "a"), ("Tag.2.Key", "b")];
    sends("DeleteTags", &fields, async |wire| {
        wire.ec2.delete_tags("vol-1", &["a".into(), "b".into()]).await.unwrap_err();
    })
    .await;
}

/// Without keys, EC2 would delete all tags.
#[tokio::test]
async fn delete_tags_without_keys_makes_no_call() {
    let wire = Wire::answering([Reply::ok("")]).await;
    wire.ec2.delete_tags("vol-1", &[]).await.unwrap();
    assert!(wire.requests().is_empty());
}

fn page() -> PageRequest {
    PageRequest { max_results: Some(200), token: Some("next".into()) }
}

/// A filter uses the larger bucket. Bare ids are never sent.
#[tokio::test]
async fn volumes_are_described_by_a_filter_with_paging() {
    let describe = async |query: VolumeQuery, fields: &[(&str, &str)]| {
        sends("DescribeVolumes", fields, async |wire| {
            wire.ec2.describe_volumes(&query, &page()).await.unwrap_err();
        })
        .await;
    };
    let paging = [("MaxResults", "200"), ("NextToken", "next")];
    let with_paging = |fields: &[(&'static str, &'static str)]| [fields, &paging].concat();
    let two = vec![vol("vol-1"), vol("vol-2")];
    let filter = [("Filter.1.Name", "volume-id"), ("Filter.1.Value.1", "vol-1"), ("Filter.1.Value.2", "vol-2")];
    describe(VolumeQuery::FilterIds(two), &with_paging(&filter)).await;
    let tag = VolumeQuery::Tag { key: "CSIVolumeName".into(), values: vec!["a*".into()] };
    let filter = [("Filter.1.Name", "tag:CSIVolumeName"), ("Filter.1.Value.1", "a\\*")];
    describe(tag, &with_paging(&filter)).await;
}

#[tokio::test]
async fn lock_is_described_by_the_snapshot_id() {
    sends("DescribeLockedSnapshots", &[("SnapshotId.1", "snap-1")], async |wire| {
        wire.ec2.describe_lock(&SnapshotId::parse("snap-1").unwrap()).await.unwrap_err();
    })
    .await;
}

/// A query by id may return snapshots of other accounts.
#[tokio::test]
async fn snapshots_are_described_in_the_own_account_except_by_id() {
    let describe = async |query: SnapshotQuery, fields: &[(&str, &str)]| {
        let fields = [fields, &[("MaxResults", "200"), ("NextToken", "next")]].concat();
        sends("DescribeSnapshots", &fields, async |wire| {
            wire.ec2.describe_snapshots(&query, &page()).await.unwrap_err();
        })
        .await;
    };
    let id = SnapshotId::parse("snap-1").unwrap();
    let by_id = [("Filter.1.Name", "snapshot-id"), ("Filter.1.Value.1", "snap-1")];
    describe(SnapshotQuery::FilterIds(vec![id]), &by_id).await;
    let tag = SnapshotQuery::Tag { key: "k".into(), values: vec!["v".into()] };
    describe(tag, &[("Owner.1", "self"), ("Filter.1.Name", "tag:k"), ("Filter.1.Value.1", "v")]).await;
    describe(SnapshotQuery::Owned { volume: None }, &[("Owner.1", "self")]).await;
    let of_volume = [("Owner.1", "self"), ("Filter.1.Name", "volume-id"), ("Filter.1.Value.1", "vol-1")];
    describe(SnapshotQuery::Owned { volume: Some(vol("vol-1")) }, &of_volume).await;
}

#[tokio::test]
async fn instances_and_modifications_are_described_by_filter() {
    let paging = [("MaxResults", "200"), ("NextToken", "next")];
    let fields = [&[("Filter.1.Name", "instance-id"), ("Filter.1.Value.1", "i-1")][..], &paging].concat();
    sends("DescribeInstances", &fields, async |wire| {
        wire.ec2.describe_instances(&[InstanceId::parse("i-1").unwrap()], &page()).await.unwrap_err();
    })
    .await;
    let fields = [&[("Filter.1.Name", "volume-id"), ("Filter.1.Value.1", "vol-1")][..], &paging].concat();
    sends("DescribeVolumesModifications", &fields, async |wire| {
        wire.ec2.describe_modifications(&[vol("vol-1")], &page()).await.unwrap_err();
    })
    .await;
    sends("DescribeInstanceTypes", &[("InstanceType.1", "m5.large")], async |wire| {
        wire.ec2.describe_instance_type("m5.large").await.unwrap_err();
    })
    .await;
}

/// EC2 would list everything.
#[tokio::test]
async fn describe_without_ids_makes_no_call() {
    let wire = Wire::answering([Reply::ok("")]).await;
    let none = PageRequest::default();
    assert!(wire.ec2.describe_volumes(&VolumeQuery::FilterIds(vec![]), &none).await.unwrap().items.is_empty());
    let tag = VolumeQuery::Tag { key: "k".into(), values: vec![] };
    assert!(wire.ec2.describe_volumes(&tag, &none).await.unwrap().items.is_empty());
    assert!(wire.ec2.describe_snapshots(&SnapshotQuery::FilterIds(vec![]), &none).await.unwrap().items.is_empty());
    let tag = SnapshotQuery::Tag { key: "k".into(), values: vec![] };
    assert!(wire.ec2.describe_snapshots(&tag, &none).await.unwrap().items.is_empty());
    assert!(wire.ec2.describe_instances(&[], &none).await.unwrap().items.is_empty());
    assert!(wire.ec2.describe_modifications(&[], &none).await.unwrap().items.is_empty());
    assert!(wire.ec2.describe_volume_status(&[], &none).await.unwrap().items.is_empty());
    assert!(wire.requests().is_empty());
}

/// The call is DescribeAvailabilityZones, and its success is DryRunOperation.
#[tokio::test]
async fn health_check_is_one_dry_run() {
    sends("DescribeAvailabilityZones", &[("DryRun", "true")], async |wire| {
        wire.ec2.check_access().await.unwrap();
    })
    .await;
    sends("DescribeAvailabilityZones", &[], async |wire| {
        wire.ec2.describe_zones().await.unwrap_err();
    })
    .await;
}

/// The user agent has `exec-env/aws-ebs-csi-driver-<version>[-<extra>]`, without a change of the process's environment.
#[tokio::test]
async fn user_agent_has_driver_version_and_extra() {
    let wire = Wire::answering([Reply::error(400, "DryRunOperation", "ok")]).await;
    wire.ec2.check_access().await.unwrap();
    let requests = wire.requests();
    for header in ["user-agent", "x-amz-user-agent"] {
        let agent = requests[0].headers[header].to_str().unwrap();
        assert!(agent.contains("exec-env/aws-ebs-csi-driver-v1.2.3-helm"), "{header}: {agent}");
    }
    let signed = requests[0].headers["authorization"].to_str().unwrap();
    assert!(signed.contains("/us-west-2/ec2/aws4_request"), "{signed}");
}

/// A call may have several attempts.
#[tokio::test]
async fn observer_receives_each_call_once_with_its_outcome() {
    let wire = Wire::answering([
        Reply::error(500, "InternalError", "x"),
        Reply::ok("<DescribeVolumesResponse><requestId>r</requestId><volumeSet/></DescribeVolumesResponse>"),
        Reply::error(400, "InvalidVolume.NotFound", "x"),
    ])
    .await;
    wire.ec2.describe_volumes(&crate::server::managed_volumes(), &PageRequest::default()).await.unwrap();
    wire.ec2.delete_volume(&vol("vol-1")).await.unwrap_err();
    assert_eq!(wire.requests().len(), 3);
    let seen = wire.seen.0.lock().unwrap().clone();
    let wanted = [(Action::DescribeVolumes, None), (Action::DeleteVolume, Some(ErrorClass::VolumeNotFound))];
    assert_eq!(seen, wanted);
}

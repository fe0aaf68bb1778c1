//! Checks the complete requests of the client.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use ebs_ec2::{
    AttachRequest, Attachments, CopyVolume, CreateSnapshot, CreateVolume, ErrorClass, Gib, Instances, LockSnapshot,
    ModifyVolume, PageRequest, Place, SnapshotQuery, Snapshots, Tags, VolumeQuery, VolumeType, Volumes, ZoneId, Zones,
};

use crate::fixtures::{
    all_snapshots, attach, copy, create, detach, instance, lock, modify, snap, snapshot_of, tags, vol, zones,
};
use crate::model;
use crate::server::{Reply, Wire};

/// The tags of a new resource. The test replaces `KIND` with the resource's type.
const TAGS: &str = "TagSpecification.1.ResourceType=KIND TagSpecification.1.Tag.1.Key=CSIVolumeName \
                    TagSpecification.1.Tag.1.Value=pvc-1 TagSpecification.1.Tag.2.Key=ebs.csi.aws.com/cluster \
                    TagSpecification.1.Tag.2.Value=true";
const KEY: &str = "arn:aws:kms:us-west-2:1:key/k";
const OUTPOST: &str = "arn:aws:outposts:us-west-2:1:outpost/op-1";

async fn refusing() -> Wire {
    Wire::answering([Reply::error(400, "DryRunOperation", "would have succeeded")]).await
}

/// Checks that the only request has the action and the fields of the line, and that it conforms to AWS's own model.
fn sent(wire: &Wire, line: impl AsRef<str>) {
    let (form, line) = (wire.only_form(), line.as_ref());
    let (action, fields) = line.split_once(' ').unwrap_or((line, ""));
    let fields = fields.split(' ').filter_map(|field| field.split_once('='));
    let expected: BTreeMap<String, String> = [("Action", action), ("Version", "2016-11-15")]
        .into_iter()
        .chain(fields)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(form, expected);
    model::check_request(&form);
    assert_eq!(wire.seen.0.lock().unwrap().len(), 1, "the observer receives one call");
}

/// Makes each call to a server that refuses it, and checks the request.
macro_rules! sends {
    ($($line:expr => $method:ident($($argument:expr),*);)*) => {$(
        let wire = refusing().await;
        let _refused = wire.ec2.$method($($argument),*).await;
        sent(&wire, $line);
    )*};
}

fn tagged(line: &str, kind: &str) -> String {
    format!("{line} {}", TAGS.replace("KIND", kind))
}

/// Encryption and multi-attach are always sent, and other optional fields only if given. A KMS key implies encryption.
/// Numbers saturate at 32 bits.
#[tokio::test]
async fn create_volume_sends_optional_fields_only_if_given() {
    let everything = CreateVolume {
        place: Place::ZoneId(ZoneId::parse("usw2-az2").unwrap()),
        size: Gib(u32::MAX),
        volume_type: VolumeType::Io2,
        iops: Some(u32::MAX),
        throughput: Some(500),
        kms_key_id: Some(KEY.into()),
        snapshot: Some(snap("snap-1")),
        initialization_rate: Some(200),
        multi_attach: true,
        outpost_arn: Some(OUTPOST.into()),
        dry_run: true,
        ..create()
    };
    let line = format!(
        "CreateVolume ClientToken=token AvailabilityZoneId=usw2-az2 Size=2147483647 VolumeType=io2 Iops=2147483647 \
         Throughput=500 MultiAttachEnabled=true Encrypted=true KmsKeyId={KEY} SnapshotId=snap-1 \
         VolumeInitializationRate=200 OutpostArn={OUTPOST} DryRun=true"
    );
    sends! {
        tagged(
            "CreateVolume ClientToken=token AvailabilityZone=us-west-2a Size=4 VolumeType=gp3 MultiAttachEnabled=false \
             Encrypted=false",
            "volume",
        ) => create_volume(&create());
        tagged(&line, "volume") => create_volume(&everything);
    }
    let error = refusing().await.ec2.create_volume(&everything).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::DryRunSucceeded);
}

/// A CopyVolumes request has no zone, and has encryption and a key only if the caller requests them. DetachVolume is
/// never forced. ModifyVolume contains only the properties to change.
#[tokio::test]
async fn mutation_sends_only_given_fields() {
    let (volume, on, id) = (vol("vol-1"), instance("i-1"), snap("snap-1"));
    let copied = CopyVolume {
        volume_type: VolumeType::Gp3,
        iops: Some(4000),
        throughput: Some(250),
        encrypted: true,
        kms_key_id: Some("alias/mine".into()),
        multi_attach: false,
        tags: tags(),
        ..copy(&volume)
    };
    let (volume_type, iops, throughput) = (Some(VolumeType::Io2), Some(5000), Some(300));
    let faster = ModifyVolume { size: None, volume_type, iops, throughput, ..modify(&volume) };
    let local = CreateSnapshot { outpost_arn: Some(OUTPOST.into()), tags: Tags::new(), ..snapshot_of(&volume) };
    let locked = LockSnapshot {
        mode: Some("compliance".into()),
        cool_off_hours: Some(24),
        expiration: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045)),
        duration_days: Some(365),
        ..lock(&id)
    };
    sends! {
        "CopyVolumes ClientToken=token SourceVolumeId=vol-1 Size=8 VolumeType=io2 MultiAttachEnabled=true" =>
            copy_volume(&copy(&volume));
        tagged(
            "CopyVolumes ClientToken=token SourceVolumeId=vol-1 Size=8 VolumeType=gp3 Iops=4000 Throughput=250 \
             MultiAttachEnabled=false Encrypted=true KmsKeyId=alias/mine",
            "volume",
        ) => copy_volume(&copied);
        "DeleteVolume VolumeId=vol-1" => delete_volume(&volume);
        "AttachVolume VolumeId=vol-1 InstanceId=i-1 Device=/dev/xvdaa" => attach_volume(&attach(&volume, &on));
        "AttachVolume VolumeId=vol-1 InstanceId=i-1 Device=/dev/xvdaa EbsCardIndex=1" =>
            attach_volume(&AttachRequest { card: Some(1), ..attach(&volume, &on) });
        "DetachVolume VolumeId=vol-1 InstanceId=i-1" => detach_volume(&detach(&volume, &on));
        "ModifyVolume VolumeId=vol-1 Size=9" => modify_volume(&modify(&volume));
        "ModifyVolume VolumeId=vol-1 VolumeType=io2 Iops=5000 Throughput=300" => modify_volume(&faster);
        tagged("CreateSnapshot VolumeId=vol-1 Description=words", "snapshot") => create_snapshot(&snapshot_of(&volume));
        format!("CreateSnapshot VolumeId=vol-1 Description=words OutpostArn={OUTPOST}") => create_snapshot(&local);
        "DeleteSnapshot SnapshotId=snap-1" => delete_snapshot(&id);
        "EnableFastSnapshotRestores SourceSnapshotId.1=snap-1 AvailabilityZone.1=us-west-2a AvailabilityZone.2=us-west-2b" =>
            enable_fast_snapshot_restores(&id, &zones());
        "LockSnapshot SnapshotId=snap-1" => lock_snapshot(&lock(&id));
        "LockSnapshot SnapshotId=snap-1 LockMode=compliance CoolOffPeriod=24 ExpirationDate=2026-01-02T03:04:05Z LockDuration=365" =>
            lock_snapshot(&locked);
        "CreateTags ResourceId.1=vol-1 Tag.1.Key=CSIVolumeName Tag.1.Value=pvc-1 Tag.2.Key=ebs.csi.aws.com/cluster Tag.2.Value=true" =>
            create_tags("vol-1", &tags());
        "DeleteTags ResourceId.1=vol-1 Tag.1.Key=a Tag.2.Key=b" => delete_tags("vol-1", &["a".into(), "b".into()]);
    }
}

/// A describe with a filter draws from EC2's larger token bucket. The client sends bare ids, without MaxResults, only
/// where EC2 has no filter by id. Only a query by id finds snapshots of other accounts.
#[tokio::test]
async fn describe_sends_filters_and_page_parameters() {
    let page = PageRequest { max_results: Some(200), token: Some("next".into()) };
    let paged = |line: &str| format!("{line} MaxResults=200 NextToken=next");
    let by = |action: &str, name: &str, value: &str| {
        paged(&format!("{action} Filter.1.Name={name} Filter.1.Value.1={value}"))
    };
    let two = vec![vol("vol-1"), vol("vol-2")];
    let tag = VolumeQuery::Tag { key: "CSIVolumeName".into(), values: vec!["a*b?c\\d".into()] };
    let tagged = SnapshotQuery::Tag { key: "k".into(), values: vec!["v".into()] };
    let of_volume = SnapshotQuery::Owned { volume: Some(vol("vol-1")) };
    sends! {
        by("DescribeVolumes", "volume-id", "vol-1 Filter.1.Value.2=vol-2") =>
            describe_volumes(&VolumeQuery::FilterIds(two.clone()), &page);
        by("DescribeVolumes", "tag:CSIVolumeName", "a\\*b\\?c\\\\d") => describe_volumes(&tag, &page);
        "DescribeVolumeStatus VolumeId.1=vol-1 VolumeId.2=vol-2 NextToken=next" => describe_volume_status(&two, &page);
        by("DescribeVolumesModifications", "volume-id", "vol-1") => describe_modifications(&two[..1], &page);
        "DescribeLockedSnapshots SnapshotId.1=snap-1" => describe_lock(&snap("snap-1"));
        by("DescribeSnapshots", "snapshot-id", "snap-1") =>
            describe_snapshots(&SnapshotQuery::FilterIds(vec![snap("snap-1")]), &page);
        by("DescribeSnapshots Owner.1=self", "tag:k", "v") => describe_snapshots(&tagged, &page);
        by("DescribeSnapshots Owner.1=self", "volume-id", "vol-1") => describe_snapshots(&of_volume, &page);
        paged("DescribeSnapshots Owner.1=self") => describe_snapshots(&all_snapshots(), &page);
        by("DescribeInstances", "instance-id", "i-1") => describe_instances(&[instance("i-1")], &page);
        "DescribeInstanceTypes InstanceType.1=m5.large" => describe_instance_type("m5.large");
        "DescribeAvailabilityZones" => describe_zones();
        "DescribeAvailabilityZones DryRun=true" => check_access();
    }
}

/// Without ids, EC2 would list everything. Without keys, DeleteTags would delete all tags.
#[tokio::test]
async fn call_without_ids_or_keys_is_not_sent() {
    let wire = Wire::answering([Reply::ok("")]).await;
    let none = PageRequest::default();
    let (key, values) = ("k".to_owned(), vec![]);
    for query in [VolumeQuery::FilterIds(vec![]), VolumeQuery::Tag { key: key.clone(), values: values.clone() }] {
        assert!(wire.ec2.describe_volumes(&query, &none).await.unwrap().items.is_empty());
    }
    for query in [SnapshotQuery::FilterIds(vec![]), SnapshotQuery::Tag { key, values }] {
        assert!(wire.ec2.describe_snapshots(&query, &none).await.unwrap().items.is_empty());
    }
    assert!(wire.ec2.describe_instances(&[], &none).await.unwrap().items.is_empty());
    assert!(wire.ec2.describe_modifications(&[], &none).await.unwrap().items.is_empty());
    assert!(wire.ec2.describe_volume_status(&[], &none).await.unwrap().items.is_empty());
    wire.ec2.delete_tags("vol-1", &[]).await.unwrap();
    assert!(wire.requests().is_empty());
}

/// A successful dry run returns DryRunOperation. The user agent contains
/// `exec-env/aws-ebs-csi-driver-<version>[-<extra>]`, although the process's environment is unchanged.
#[tokio::test]
async fn health_check_sends_one_signed_dry_run_with_user_agent() {
    let wire = refusing().await;
    wire.ec2.check_access().await.unwrap();
    let requests = wire.requests();
    for header in ["user-agent", "x-amz-user-agent"] {
        let agent = requests[0].headers[header].to_str().unwrap();
        assert!(agent.contains("exec-env/aws-ebs-csi-driver-v1.2.3-helm"), "{header}: {agent}");
    }
    let signed = requests[0].headers["authorization"].to_str().unwrap();
    assert!(signed.contains("/us-west-2/ec2/aws4_request"), "{signed}");
}

//! The port's types for EC2's replies.

use std::time::{Duration, SystemTime};

use ebs_ec2::{
    AttachRequest, Attachment, AttachmentState, Attachments, BlockDevice, CopyVolume, CreateSnapshot, CreateVolume,
    DetachRequest, DeviceName, Ec2Error, ErrorClass, Gib, InstanceId, Instances, LockSnapshot, LockState,
    ModificationState, ModifyVolume, PageRequest, Place, SnapshotId, SnapshotLock, SnapshotQuery, SnapshotState,
    Snapshots, Tags, Volume, VolumeId, VolumeState, VolumeType, Volumes, ZoneId, ZoneName, Zones,
};

use crate::server::{Reply, Wire};

fn vol(id: &str) -> VolumeId {
    VolumeId::parse(id).unwrap()
}

/// 2026-01-02T03:04:05Z.
fn moment() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045)
}

const VOLUME: &str = "<volumeId>vol-1</volumeId><size>4</size><snapshotId>snap-1</snapshotId>\
    <availabilityZone>us-west-2a</availabilityZone><availabilityZoneId>usw2-az2</availabilityZoneId>\
    <status>in-use</status><createTime>2026-01-02T03:04:05.000Z</createTime>\
    <attachmentSet><item><volumeId>vol-1</volumeId><instanceId>i-1</instanceId><device>/dev/xvdaa</device>\
    <status>attached</status><attachTime>2026-01-02T03:04:05.000Z</attachTime><ebsCardIndex>1</ebsCardIndex></item>\
    </attachmentSet><volumeType>gp3</volumeType><iops>3000</iops><throughput>125</throughput>\
    <encrypted>true</encrypted><kmsKeyId>arn:key</kmsKeyId><multiAttachEnabled>false</multiAttachEnabled>\
    <tagSet><item><key>CSIVolumeName</key><value>pvc-1</value></item><item><key>empty</key><value/></item></tagSet>";

fn volume() -> Volume {
    Volume {
        id: vol("vol-1"),
        state: VolumeState::InUse,
        size: Gib(4),
        volume_type: VolumeType::Gp3,
        iops: Some(3000),
        throughput: Some(125),
        zone: Some(ZoneName::parse("us-west-2a").unwrap()),
        zone_id: Some(ZoneId::parse("usw2-az2").unwrap()),
        encrypted: true,
        kms_key_id: Some("arn:key".into()),
        snapshot: Some(SnapshotId::parse("snap-1").unwrap()),
        source_volume: None,
        multi_attach: Some(false),
        outpost_arn: None,
        created: Some(moment()),
        said_at: None,
        tags: Tags::from([("CSIVolumeName".into(), "pvc-1".into()), ("empty".into(), String::new())]),
        attachments: vec![Attachment {
            volume: vol("vol-1"),
            instance: Some(InstanceId::parse("i-1").unwrap()),
            associated_resource: None,
            device: Some(DeviceName::new("/dev/xvdaa")),
            state: AttachmentState::Attached,
            card: Some(1),
            attach_time: Some(moment()),
            said_at: None,
        }],
    }
}

/// XML excludes the character, so EC2 writes it as a reference. The other volumes of the page stay readable. An invalid
/// reference still makes the reply unreadable.
#[tokio::test]
async fn control_character_in_a_tag_keeps_the_reply_readable() {
    let page = |value: &str| {
        let other = VOLUME.replace("vol-1", "vol-2").replace("<value>pvc-1", &format!("<value>{value}"));
        Reply::ok(format!(
            "<DescribeVolumesResponse><volumeSet><item>{VOLUME}</item><item>{other}</item></volumeSet></DescribeVolumesResponse>"
        ))
    };
    for (value, read) in [
        ("a&#1;b", "a\u{fffd}b"),
        ("&#x1F;&#x0;&#xFFFE;", "\u{fffd}\u{fffd}\u{fffd}"),
        ("&#xD800;&amp;&#10;&#65;", "\u{fffd}&\nA"),
    ] {
        let wire = Wire::answering([page(value)]).await;
        let page = wire.ec2.describe_volumes(&crate::server::managed_volumes(), &PageRequest::default()).await.unwrap();
        assert_eq!(page.items[0].tags, volume().tags, "{value}");
        assert_eq!(page.items[1].tags["CSIVolumeName"], read, "{value}");
    }
    for value in ["&#;", "&#x;", "&nothing;", "&#1", "a\u{1}b"] {
        let wire = Wire::answering([page(value)]).await;
        let error = wire.ec2.describe_volumes(&crate::server::managed_volumes(), &PageRequest::default()).await;
        assert_eq!(error.unwrap_err().class, ErrorClass::Ambiguous, "{value:?}");
    }
}

/// The `Date` of the replies.
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn date() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
}

fn dated(body: String) -> Reply {
    Reply::SayWith(200, vec![("date", DATE.to_owned())], body)
}

fn volumes(items: &str, token: &str) -> Reply {
    dated(format!(
        "<DescribeVolumesResponse><requestId>r-1</requestId><volumeSet>{items}</volumeSet>\
         <nextToken>{token}</nextToken></DescribeVolumesResponse>"
    ))
}

async fn describe(reply: Reply) -> Result<ebs_ec2::Page<Volume>, Ec2Error> {
    Wire::answering([reply])
        .await
        .ec2
        .describe_volumes(&crate::server::managed_volumes(), &PageRequest::default())
        .await
}

fn create() -> CreateVolume {
    CreateVolume::plain("t", Place::Zone(ZoneName::parse("us-west-2a").unwrap()), Gib(4), VolumeType::Gp3)
}

/// The same applies to a snapshot, a modification and a zone.
#[tokio::test]
async fn volume_is_read_with_all_fields() {
    let mut page = describe(volumes(&format!("<item>{VOLUME}</item>"), "next")).await.unwrap();
    assert_eq!(page.items[0].attachments[0].said_at.take(), Some(date()));
    assert_eq!(page.items, [volume()]);
    assert_eq!(page.next.as_deref(), Some("next"));
    let page = describe(volumes("", "")).await.unwrap();
    assert_eq!((page.items.len(), page.next), (0, None));
}

/// CopyVolumes must return exactly one volume. An empty id or a size of zero is an error.
#[tokio::test]
async fn created_and_copied_volumes_are_read_like_described_ones() {
    let reply = dated(format!("<CreateVolumeResponse>{VOLUME}</CreateVolumeResponse>"));
    let made = Wire::answering([reply]).await.ec2.create_volume(&create()).await.unwrap();
    assert_eq!(made, Volume { said_at: Some(date()), ..volume() });

    let request = CopyVolume {
        client_token: "t".into(),
        source: vol("vol-9"),
        size: Gib(4),
        volume_type: VolumeType::Gp3,
        iops: None,
        throughput: None,
        encrypted: false,
        kms_key_id: None,
        multi_attach: false,
        tags: Tags::new(),
    };
    let reply =
        |items: &str| dated(format!("<CopyVolumesResponse><volumeSet>{items}</volumeSet></CopyVolumesResponse>"));
    let copied = format!("<item>{VOLUME}<sourceVolumeId>vol-9</sourceVolumeId></item>");
    let made = Wire::answering([reply(&copied)]).await.ec2.copy_volume(&request).await.unwrap();
    assert_eq!(made, Volume { source_volume: Some(vol("vol-9")), said_at: Some(date()), ..volume() });
    for items in [String::new(), format!("{copied}{copied}")] {
        let error = Wire::answering([reply(&items)]).await.ec2.copy_volume(&request).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Ambiguous, "{error}");
    }
}

/// The same applies to type and encryption. No missing field gets a default.
#[tokio::test]
async fn creation_reply_without_id_size_or_state_is_ambiguous() {
    for (missing, word) in [
        ("<volumeId>vol-1</volumeId><size>", "volume id"),
        ("<size>4</size>", "size"),
        ("<status>in-use</status>", "state"),
        ("<volumeType>gp3</volumeType>", "type"),
        ("<encrypted>true</encrypted>", "encryption"),
    ] {
        let body = VOLUME.replacen(missing, if missing.ends_with("<size>") { "<size>" } else { "" }, 1);
        assert_ne!(body, VOLUME);
        let reply = Reply::ok(format!("<CreateVolumeResponse>{body}</CreateVolumeResponse>"));
        let error = Wire::answering([reply]).await.ec2.create_volume(&create()).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Ambiguous, "{error}");
        assert!(error.to_string().contains(word), "{error}");
        let error = describe(volumes(&format!("<item>{body}</item>"), "")).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Other, "{error}");
    }
    let zero = VOLUME.replace("<size>4</size>", "<size>0</size>");
    let reply = Reply::ok(format!("<CreateVolumeResponse>{zero}</CreateVolumeResponse>"));
    let error = Wire::answering([reply]).await.ec2.create_volume(&create()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Ambiguous);
    assert!(error.to_string().contains("size 0 of vol-1"), "{error}");
}

#[tokio::test]
async fn unknown_states_and_types_are_read_unchanged() {
    let new = VOLUME
        .replace("<status>in-use</status>", "<status>levitating</status>")
        .replace("<volumeType>gp3</volumeType>", "<volumeType>gp9</volumeType>")
        .replace("<status>attached</status>", "<status>hovering</status>");
    let page = describe(volumes(&format!("<item>{new}</item>"), "")).await.unwrap();
    assert_eq!(page.items[0].state, VolumeState::Other("levitating".into()));
    assert_eq!(page.items[0].volume_type, VolumeType::Other("gp9".into()));
    assert_eq!(page.items[0].attachments[0].state, AttachmentState::Other("hovering".into()));
}

#[tokio::test]
async fn blank_volume_has_no_snapshot_and_an_invalid_id_fails() {
    let blank = VOLUME.replace("<snapshotId>snap-1</snapshotId>", "<snapshotId/>");
    let page = describe(volumes(&format!("<item>{blank}</item>"), "")).await.unwrap();
    assert_eq!(page.items[0].snapshot, None);
    let strange = VOLUME.replace("<snapshotId>snap-1</snapshotId>", "<snapshotId>???</snapshotId>");
    assert!(describe(volumes(&format!("<item>{strange}</item>"), "")).await.is_err());
}

#[tokio::test]
async fn attachment_to_a_foreign_resource_has_no_instance() {
    let foreign = VOLUME.replace("<instanceId>i-1</instanceId>", "<instanceId/>");
    let page = describe(volumes(&format!("<item>{foreign}</item>"), "")).await.unwrap();
    assert_eq!(page.items[0].attachments[0].instance, None);
}

/// The date is from the replies of EC2 and SageMaker.
#[tokio::test]
async fn attachment_has_the_date_of_the_reply() {
    let (volume, instance) = (vol("vol-1"), InstanceId::parse("i-1").unwrap());
    let attach = AttachRequest {
        volume: volume.clone(),
        instance: instance.clone(),
        device: DeviceName::new("/dev/xvdaa"),
        card: None,
    };
    let body = |action: &str| {
        let attachment = "<volumeId>vol-1</volumeId><instanceId>i-1</instanceId><status>busy</status>";
        format!("<{action}Response>{attachment}</{action}Response>")
    };
    let wire = Wire::answering([dated(body("AttachVolume")), dated(body("DetachVolume"))]).await;
    assert_eq!(wire.ec2.attach_volume(&attach).await.unwrap().said_at, Some(date()));
    assert_eq!(wire.ec2.detach_volume(&DetachRequest { volume, instance }).await.unwrap().said_at, Some(date()));
    let odd = Reply::SayWith(200, vec![("date", "yesterday".to_owned())], body("AttachVolume"));
    assert_eq!(Wire::answering([odd]).await.ec2.attach_volume(&attach).await.unwrap().said_at, None);
}

/// It is never treated as detached.
#[tokio::test]
async fn attachment_without_a_state_is_an_error() {
    let request = AttachRequest {
        volume: vol("vol-1"),
        instance: InstanceId::parse("i-1").unwrap(),
        device: DeviceName::new("/dev/xvdaa"),
        card: None,
    };
    let body = "<volumeId>vol-1</volumeId><instanceId>i-1</instanceId><device>/dev/xvdaa</device>";
    let reply = |state: &str| Reply::ok(format!("<AttachVolumeResponse>{body}{state}</AttachVolumeResponse>"));
    let made = Wire::answering([reply("<status>attaching</status>")]).await.ec2.attach_volume(&request).await.unwrap();
    assert_eq!(made.state, AttachmentState::Attaching);
    assert_eq!(made.device, Some(DeviceName::new("/dev/xvdaa")));
    let error = Wire::answering([reply("")]).await.ec2.attach_volume(&request).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Ambiguous, "{error}");
}

#[tokio::test]
async fn snapshot_is_read_with_all_fields() {
    let body = "<snapshotId>snap-1</snapshotId><volumeId>vol-1</volumeId><status>pending</status>\
        <startTime>2026-01-02T03:04:05.000Z</startTime><ownerId>123</ownerId><volumeSize>4</volumeSize>\
        <encrypted>false</encrypted><statusMessage>words</statusMessage>\
        <tagSet><item><key>k</key><value>v</value></item></tagSet>";
    let request =
        CreateSnapshot { volume: vol("vol-1"), description: "d".into(), outpost_arn: None, tags: Tags::new() };
    let created = Reply::ok(format!("<CreateSnapshotResponse>{body}</CreateSnapshotResponse>"));
    let created = Wire::answering([created]).await.ec2.create_snapshot(&request).await.unwrap();
    let list = |status: &str| {
        let body = body.replace("pending", status);
        Reply::ok(format!(
            "<DescribeSnapshotsResponse><snapshotSet><item>{body}</item></snapshotSet></DescribeSnapshotsResponse>"
        ))
    };
    let all = SnapshotQuery::Owned { volume: None };
    let none = PageRequest::default();
    let page = Wire::answering([list("pending")]).await.ec2.describe_snapshots(&all, &none).await.unwrap();
    assert_eq!(page.items.as_slice(), std::slice::from_ref(&created));
    assert_eq!(created.id, SnapshotId::parse("snap-1").unwrap());
    assert_eq!(created.source_volume, Some(vol("vol-1")));
    assert_eq!(created.state, SnapshotState::Pending);
    assert_eq!((created.size, created.encrypted), (Gib(4), false));
    assert_eq!((created.owner.as_deref(), created.status_message.as_deref()), (Some("123"), Some("words")));
    assert_eq!(created.started, Some(moment()));
    assert_eq!(created.tags, Tags::from([("k".into(), "v".into())]));
    let page = Wire::answering([list("recovering")]).await.ec2.describe_snapshots(&all, &none).await.unwrap();
    assert_eq!(page.items[0].state, SnapshotState::Other("recovering".into()));
}

/// A device mapping may have no EBS data.
#[tokio::test]
async fn instance_is_read_with_its_whole_device_mapping() {
    let reply = Reply::ok(
        "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId>\
         <instanceType>m5.large</instanceType><instanceState><code>16</code><name>running</name></instanceState>\
         <placement><availabilityZone>us-west-2a</availabilityZone></placement>\
         <rootDeviceName>/dev/xvda</rootDeviceName><blockDeviceMapping>\
         <item><deviceName>/dev/xvda</deviceName><ebs><volumeId>vol-1</volumeId><status>attached</status>\
         <attachTime>2026-01-02T03:04:05.000Z</attachTime></ebs></item>\
         <item><deviceName>/dev/xvdaa</deviceName><ebs><volumeId>vol-2</volumeId><status>busy</status>\
         <ebsCardIndex>1</ebsCardIndex></ebs></item><item><deviceName>/dev/sdb</deviceName></item>\
         </blockDeviceMapping></item></instancesSet></item></reservationSet></DescribeInstancesResponse>",
    );
    let id = InstanceId::parse("i-1").unwrap();
    let wire = Wire::answering([reply]).await;
    let page = wire.ec2.describe_instances(std::slice::from_ref(&id), &PageRequest::default()).await.unwrap();
    let [instance] = page.items.as_slice() else { panic!("{page:?}") };
    assert_eq!((&instance.id, instance.state.as_str(), instance.instance_type.as_str()), (&id, "running", "m5.large"));
    assert_eq!(instance.zone, Some(ZoneName::parse("us-west-2a").unwrap()));
    assert_eq!(instance.root_device, Some(DeviceName::new("/dev/xvda")));
    assert_eq!(instance.network_interfaces, 1, "an instance has one at least");
    let device = |name: &str, volume: Option<&str>, state: Option<AttachmentState>| BlockDevice {
        device: DeviceName::new(name),
        volume: volume.map(vol),
        state,
        card: None,
        attach_time: None,
    };
    let wanted = [
        BlockDevice {
            attach_time: Some(moment()),
            ..device("/dev/xvda", Some("vol-1"), Some(AttachmentState::Attached))
        },
        BlockDevice { card: Some(1), ..device("/dev/xvdaa", Some("vol-2"), Some(AttachmentState::Busy)) },
        device("/dev/sdb", None, None),
    ];
    assert_eq!(instance.devices, wanted);
}

/// An unknown type is not an error.
#[tokio::test]
async fn instance_type_has_one_card_unless_ec2_reports_more() {
    let reply = |info: &str| {
        Reply::ok(format!(
            "<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>m5.large</instanceType>{info}</item>\
             </instanceTypeSet></DescribeInstanceTypesResponse>"
        ))
    };
    let cards = async |info: &str| {
        let wire = Wire::answering([reply(info)]).await;
        wire.ec2.describe_instance_type("m5.large").await.unwrap().unwrap().ebs_cards
    };
    assert_eq!(cards("").await, 1);
    assert_eq!(cards("<ebsInfo><maximumEbsCards>2</maximumEbsCards></ebsInfo>").await, 2);
}

#[tokio::test]
async fn zones_have_their_type_and_state() {
    let item = |name: &str, id: &str, kind: &str, state: &str| {
        format!(
            "<item><zoneName>{name}</zoneName><zoneId>{id}</zoneId><zoneType>{kind}</zoneType>\
             <zoneState>{state}</zoneState></item>"
        )
    };
    let items = [
        item("us-west-2a", "usw2-az2", "availability-zone", "available"),
        item("us-west-2-lax-1a", "usw2-lax1-az1", "local-zone", "available"),
        item("us-west-2b", "usw2-az1", "availability-zone", "impaired"),
    ];
    let reply = Reply::ok(format!(
        "<DescribeAvailabilityZonesResponse><availabilityZoneInfo>{}</availabilityZoneInfo>\
         </DescribeAvailabilityZonesResponse>",
        items.concat()
    ));
    let zones = Wire::answering([reply]).await.ec2.describe_zones().await.unwrap();
    let facts: Vec<_> = zones.iter().map(|z| (z.name.as_str(), z.is_availability_zone, z.available)).collect();
    assert_eq!(facts, [("us-west-2a", true, true), ("us-west-2-lax-1a", false, true), ("us-west-2b", true, false)]);
}

#[tokio::test]
async fn modification_is_read_with_all_fields() {
    let body = "<volumeId>vol-1</volumeId><modificationState>optimizing</modificationState>\
        <targetSize>8</targetSize><targetIops>3000</targetIops><targetVolumeType>gp3</targetVolumeType>\
        <targetThroughput>125</targetThroughput><startTime>2026-01-02T03:04:05.000Z</startTime>";
    let request =
        ModifyVolume { volume: vol("vol-1"), size: Some(Gib(8)), volume_type: None, iops: None, throughput: None };
    let one = Reply::ok(format!(
        "<ModifyVolumeResponse><volumeModification>{body}</volumeModification></ModifyVolumeResponse>"
    ));
    let m = Wire::answering([one]).await.ec2.modify_volume(&request).await.unwrap();
    assert_eq!((m.volume.clone(), m.state.clone()), (vol("vol-1"), ModificationState::Optimizing));
    assert_eq!((m.target_size, m.target_iops, m.target_throughput), (Some(Gib(8)), Some(3000), Some(125)));
    assert_eq!((m.target_type.clone(), m.started), (Some(VolumeType::Gp3), Some(moment())));
    let list = Reply::ok(format!(
        "<DescribeVolumesModificationsResponse><volumeModificationSet><item>{body}</item></volumeModificationSet>\
         </DescribeVolumesModificationsResponse>"
    ));
    let wire = Wire::answering([list]).await;
    let page = wire.ec2.describe_modifications(&[vol("vol-1")], &PageRequest::default()).await.unwrap();
    assert_eq!(page.items, [m]);
    let empty = Reply::ok("<ModifyVolumeResponse/>");
    let error = Wire::answering([empty]).await.ec2.modify_volume(&request).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Ambiguous, "{error}");
}

/// The instance is at the end of the associated resource. Other resources are not nodes.
#[tokio::test]
async fn hyperpod_attachment_names_its_instance() {
    let arn = "arn:aws:sagemaker:us-west-2:123456789012:cluster/my-cluster-i-0abc";
    let node = VOLUME.replace(
        "<instanceId>i-1</instanceId>",
        &format!(
            "<associatedResource>{arn}</associatedResource><instanceOwningService>sagemaker</instanceOwningService>"
        ),
    );
    let page = describe(volumes(&format!("<item>{node}</item>"), "")).await.unwrap();
    let attachment = &page.items[0].attachments[0];
    assert_eq!((attachment.instance.as_ref(), attachment.associated_resource.as_deref()), (None, Some(arn)));
    assert_eq!(attachment.cluster_node(), Some(InstanceId::parse("i-0abc").unwrap()));
    for other in ["arn:aws:ecs:us-west-2:1:task/c/0123", "", "i", "-", "i-", "cluster/i-0abc", "a-j-0abc", "a-i-0ABC"] {
        let attachment = Attachment { associated_resource: Some(other.to_owned()), ..attachment.clone() };
        assert_eq!(attachment.cluster_node(), None, "{other}");
    }
}

#[tokio::test]
async fn snapshot_has_its_outpost() {
    let arn = "arn:aws:outposts:us-west-2:1:outpost/op-1";
    let body = crate::corpus::read("describe_snapshots")
        .replace("<encrypted>", &format!("<outpostArn>{arn}</outpostArn><encrypted>"));
    let wire = Wire::answering([Reply::ok(body)]).await;
    let query = SnapshotQuery::Owned { volume: None };
    let page = wire.ec2.describe_snapshots(&query, &PageRequest::default()).await.unwrap();
    assert_eq!(page.items[0].outpost_arn.as_deref(), Some(arn));
}

#[tokio::test]
async fn volume_status_has_initialization_and_estimate() {
    let body = crate::corpus::read("describe_volume_status");
    let status = async |body: String| {
        let wire = Wire::answering([Reply::ok(body)]).await;
        let volumes = [vol("vol-0aaa1111bbb22222c")];
        Ok::<_, Ec2Error>(wire.ec2.describe_volume_status(&volumes, &PageRequest::default()).await?.items.remove(0))
    };
    let whole = status(body.clone()).await.unwrap();
    assert_eq!((whole.initializing(), whole.estimate), (Some(true), Some(Duration::from_secs(300))));
    let done = status(body.replace("<status>initializing<", "<status>completed<")).await.unwrap();
    assert_eq!(done.initializing(), Some(false));
    let (head, tail) = body.split_once("<details>").unwrap();
    let (_, tail) = tail.split_once("</details>").unwrap();
    assert_eq!(status(format!("{head}{tail}")).await.unwrap().initializing(), None, "no details say nothing");
    let negative = status(body.replace(">300<", ">-300<")).await.unwrap_err();
    assert!(negative.to_string().contains("estimate is -300 s"), "{negative}");
}

#[tokio::test]
async fn fast_restores_list_successful_and_failed_zones() {
    let snapshot = SnapshotId::parse("snap-0123456789abcdef0").unwrap();
    let zones = ["us-west-2a", "us-west-2b"].map(|zone| ZoneName::parse(zone).unwrap());
    let wire = Wire::answering([Reply::ok(crate::corpus::read("enable_fast_snapshot_restores"))]).await;
    let restores = wire.ec2.enable_fast_snapshot_restores(&snapshot, &zones).await.unwrap();
    assert_eq!(restores.enabled, [zones[0].clone()]);
    let [failure] = restores.failures.as_slice() else { panic!("{restores:?}") };
    assert_eq!(failure.zone.as_deref(), Some("us-west-2b"));
    assert_eq!(
        (failure.code.as_deref(), failure.message.as_str()),
        (Some("FastSnapshotRestoreLimitExceeded"), "too many")
    );
    let other = SnapshotId::parse("snap-1").unwrap();
    let error = wire.ec2.enable_fast_snapshot_restores(&other, &zones).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Ambiguous, "{error}");
}

#[tokio::test]
async fn lock_is_described_with_its_mode_and_times() {
    let snapshot = SnapshotId::parse("snap-0123456789abcdef0").unwrap();
    let body = crate::corpus::read("describe_locked_snapshots");
    let described =
        async |body: String, id: &SnapshotId| Wire::answering([Reply::ok(body)]).await.ec2.describe_lock(id).await;
    let lock = described(body.clone(), &snapshot).await.unwrap().unwrap();
    let wanted = SnapshotLock {
        snapshot: snapshot.clone(),
        state: LockState::ComplianceCoolOff,
        cool_off_hours: Some(4),
        duration_days: Some(7),
        counts_from: Some(moment()),
        expires: Some(moment() + 7 * Duration::from_hours(24)),
    };
    assert_eq!(lock, wanted);
    for (word, state) in [
        ("governance", LockState::Governance),
        ("compliance", LockState::Compliance),
        ("expired", LockState::Expired),
        ("new", LockState::Other("new".to_owned())),
    ] {
        let body = body.replace(">compliance-cooloff<", &format!(">{word}<"));
        assert_eq!(described(body, &snapshot).await.unwrap().unwrap().state, state);
    }
    let (head, rest) = body.split_once("<item>").unwrap();
    let (_, tail) = rest.split_once("</item>").unwrap();
    assert_eq!(described(format!("{head}{tail}"), &snapshot).await.unwrap(), None);
    described(body, &SnapshotId::parse("snap-1").unwrap()).await.unwrap_err();
}

#[tokio::test]
async fn lock_reply_must_be_about_the_requested_snapshot() {
    let lock = |id: &str| LockSnapshot {
        snapshot: SnapshotId::parse(id).unwrap(),
        mode: Some("governance".into()),
        cool_off_hours: None,
        expiration: None,
        duration_days: Some(1),
    };
    let wire = Wire::answering([Reply::ok(crate::corpus::read("lock_snapshot"))]).await;
    wire.ec2.lock_snapshot(&lock("snap-0123456789abcdef0")).await.unwrap();
    assert_eq!(wire.ec2.lock_snapshot(&lock("snap-1")).await.unwrap_err().class, ErrorClass::Ambiguous);
}

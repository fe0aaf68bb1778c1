use std::time::{Duration, SystemTime};

use super::*;
use crate::api::{Page, SimAttachment, SimFastRestoreError, SimFastRestores, SimInstance, SimVolume};

fn volume() -> SimVolume {
    let created = SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_323_045_000);
    SimVolume {
        id: "vol-1".into(),
        state: "in-use".into(),
        size_gib: 4,
        volume_type: "gp3".into(),
        iops: Some(3000),
        throughput: None,
        zone: "us-west-2a".into(),
        zone_id: "usw2-az1".into(),
        encrypted: false,
        kms_key_id: None,
        snapshot_id: None,
        source_volume_id: None,
        volume_initialization_rate: None,
        multi_attach: false,
        outpost_arn: None,
        fast_restored: false,
        created,
        tags: Tags::from([("a".into(), "<&".into())]),
        attachments: vec![SimAttachment {
            volume_id: "vol-1".into(),
            instance_id: "i-1".into(),
            device: "/dev/xvdaa".into(),
            state: "attached".into(),
            attach_time: created,
            delete_on_termination: false,
            ebs_card_index: None,
            associated_resource: None,
            loop_device: Some("/dev/loop7".into()),
        }],
    }
}

#[test]
fn volume_has_element_names_of_ec2() {
    let page = Page { items: vec![volume()], next: Some("n".into()) };
    insta::assert_snapshot!(encode(&Reply::DescribeVolumes(page), "r").replace("><", ">\n<"));
}

#[test]
fn loop_device_of_attachment_is_not_encoded() {
    assert!(!encode(&Reply::CreateVolume(volume()), "r").contains("loop"));
}

#[test]
fn volume_without_tags_and_attachments_omits_tag_set() {
    let bare = SimVolume { tags: Tags::new(), attachments: vec![], ..volume() };
    let body = encode(&Reply::CreateVolume(bare), "r");
    assert!(!body.contains("tagSet"));
    assert!(body.contains("<attachmentSet></attachmentSet>"));
    assert!(!body.contains("<throughput>"));
}

#[test]
fn action_without_result_returns_true() {
    assert!(encode(&Reply::DeleteVolume, "r").contains("<requestId>r</requestId><return>true</return>"));
}

#[test]
fn instances_of_launch_share_reservation() {
    let instance = |id: &str, reservation: &str| SimInstance {
        id: id.into(),
        state: "running".into(),
        state_code: 16,
        instance_type: "m5.large".into(),
        zone: "us-west-2a".into(),
        zone_id: "usw2-az1".into(),
        reservation_id: reservation.into(),
        owner_id: "1".into(),
        image_id: "ami-1".into(),
        private_dns_name: String::new(),
        launch_time: SystemTime::UNIX_EPOCH,
        hypervisor: "nitro".into(),
        root_device: "/dev/xvda".into(),
        devices: vec![],
        outpost_arn: None,
        network_interfaces: vec![],
        tags: Tags::new(),
        local: false,
    };
    let items = vec![instance("i-1", "r-1"), instance("i-2", "r-2"), instance("i-3", "r-1")];
    let body = encode(&Reply::DescribeInstances(Page { items, next: None }), "r");
    let places: Vec<usize> =
        ["r-1", "i-1", "i-3", "r-2", "i-2"].map(|id| body.find(&format!(">{id}<")).unwrap()).into();
    assert!(places.is_sorted(), "{body}");
    assert_eq!(body.matches("<reservationId>").count(), 2);
}

#[test]
fn attachment_of_cluster_node_has_node_and_no_instance() {
    let mut bare = volume();
    bare.attachments[0].associated_resource = Some("arn:c-i-1".into());
    let body = encode(&Reply::CreateVolume(bare), "r");
    assert!(body.contains("<associatedResource>arn:c-i-1</associatedResource>"), "{body}");
    assert!(!body.contains("<instanceId>"), "{body}");
}

/// The failure has zone, code and message.
#[test]
fn failed_fast_restore_has_zone_and_error() {
    let error = SimFastRestoreError {
        zone: "us-west-2a".into(),
        zone_id: String::new(),
        code: "InvalidParameterValue".into(),
        message: "no <zone>".into(),
    };
    let restores = SimFastRestores { successful: vec![], unsuccessful: vec![("snap-1".into(), vec![error])] };
    assert!(encode(&Reply::EnableFastSnapshotRestores(restores), "r").contains(
        "<successful></successful><unsuccessful><item><snapshotId>snap-1</snapshotId><fastSnapshotRestoreStateErrorSet>\
         <item><availabilityZone>us-west-2a</availabilityZone><error><code>InvalidParameterValue</code>\
         <message>no &lt;zone&gt;</message></error></item></fastSnapshotRestoreStateErrorSet></item></unsuccessful>"
    ));
}

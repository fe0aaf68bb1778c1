use std::time::{Duration, SystemTime};

use super::*;
use crate::api::{Listing, SimAttachment, SimVolume};

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
fn a_volume_is_written_with_ec2s_element_names() {
    let page = Listing { items: vec![volume()], next_token: Some("n".into()) };
    insta::assert_snapshot!(encode(&Reply::DescribeVolumes(page), "r").replace("><", ">\n<"));
}

#[test]
fn the_loop_device_behind_an_attachment_is_no_ones_business_on_the_wire() {
    assert!(!encode(&Reply::CreateVolume(volume()), "r").contains("loop"));
}

#[test]
fn a_volume_without_tags_and_attachments_lists_no_tags_and_an_empty_attachment_set() {
    let bare = SimVolume { tags: Tags::new(), attachments: vec![], ..volume() };
    let body = encode(&Reply::CreateVolume(bare), "r");
    assert!(!body.contains("tagSet"));
    assert!(body.contains("<attachmentSet></attachmentSet>"));
    assert!(!body.contains("<throughput>"));
}

#[test]
fn an_action_without_result_answers_true() {
    assert!(encode(&Reply::DeleteVolume, "r").contains("<requestId>r</requestId><return>true</return>"));
}

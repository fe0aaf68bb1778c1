use std::time::Duration;

use ebs_cloud::{CloudError, CloudErrorKind, Object, VolumeSpec};
use ebs_ec2::{
    Action, AttachRequest, AttachmentState, Attachments, DeviceName, ErrorClass, InstanceId, IopsRequest, NodeId,
    VolumeId, VolumeType, Waiters,
};
use ebs_sim::api::Call;
use ebs_sim::engine::{EngineConfig, TimingOverride};
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, assert_mentions, in_zone, request, spec};

fn attach_ms(ms: u64) -> TimingOverride {
    TimingOverride { attach_ms: Some(ms), ..TimingOverride::default() }
}

fn detach_ms(ms: u64) -> TimingOverride {
    TimingOverride { detach_ms: Some(ms), ..TimingOverride::default() }
}

/// Attaches without the policy.
async fn attach_by_hand(fixture: &Fixture, volume: &VolumeId, node: &NodeId, device: &str) {
    let request = AttachRequest {
        volume: volume.clone(),
        instance: node.instance().clone(),
        device: DeviceName::new(device),
        card: None,
    };
    fixture.sim.by_test().attach_volume(&request).await.expect("the attachment is possible");
}

/// The result has the device name that EC2 reports.
#[tokio::test(start_paused = true)]
async fn attached_is_reported_only_when_ec2_shows_it() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.timing(attach_ms(7_000)).await;
    let began = Instant::now();
    let attached = fixture.attach(&volume, &node).await.unwrap();
    assert!(began.elapsed().as_secs() >= 7, "reported after {:?}", began.elapsed());
    assert_eq!(attached.device.as_str(), "/dev/xvdaa");
    assert!(attached.attach_time.is_some());
    let listed = &attached.volume.attachments[0];
    assert_eq!((listed.state.clone(), listed.instance.as_ref()), (AttachmentState::Attached, Some(node.instance())));
}

#[tokio::test(start_paused = true)]
async fn repeated_attach_is_the_same_attachment_after_a_restart() {
    let (mut fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.timing(attach_ms(7_000)).await;
    let first = fixture.attach(&volume, &node).await.unwrap();
    fixture.restart();
    let again = fixture.attach(&volume, &node).await.unwrap();
    assert_eq!((first.device, first.attach_time), (again.device, again.attach_time));
    assert_eq!(fixture.accepted(Action::AttachVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn device_name_of_another_client_is_kept() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    attach_by_hand(&fixture, &volume, &node, "/dev/sdq").await;
    let attached = fixture.attach(&volume, &node).await.unwrap();
    assert_eq!(attached.device.as_str(), "/dev/sdq");
    assert_eq!(fixture.accepted(Action::AttachVolume), 1, "the one by hand");
}

#[tokio::test(start_paused = true)]
async fn attach_with_a_lost_reply_is_found_and_not_repeated() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.sim.fail_next(Action::AttachVolume, ErrorClass::Ambiguous, true);
    fixture.attach(&volume, &node).await.unwrap();
    assert_eq!(fixture.count(Action::AttachVolume), 1);
}

/// It ends without a final error after 15 s without an attachment.
#[tokio::test(start_paused = true)]
async fn attempt_after_an_unclear_attach_starts_again() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.sim.fail_next(Action::AttachVolume, ErrorClass::Ambiguous, false);
    let began = Instant::now();
    assert_error(fixture.attach(&volume, &node).await, CloudErrorKind::OutcomeUnknown);
    assert!(began.elapsed().as_secs() >= 15);
    assert_eq!(fixture.count(Action::AttachVolume), 1, "no blind repeat");
    let attached = fixture.attach(&volume, &node).await.unwrap();
    assert_eq!(attached.device.as_str(), "/dev/xvdaa");
}

#[tokio::test(start_paused = true)]
async fn attachment_that_is_not_listed_yet_is_awaited() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    let began = Instant::now();
    fixture.ec2.override_volumes(move |volumes| {
        if began.elapsed().as_secs() < 13 {
            volumes.iter_mut().for_each(|v| v.attachments.clear());
        }
    });
    fixture.attach(&volume, &node).await.unwrap();
    assert_eq!(fixture.count(Action::AttachVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn missing_volume_or_instance_is_not_found_and_named() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    let no_volume = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    let no_instance = InstanceId::parse("i-0123456789abcdef0").unwrap();
    for (volume, node, missing) in [
        (no_volume.clone(), node, Object::Volume(no_volume)),
        (volume.id, NodeId::Instance(no_instance.clone()), Object::Instance(no_instance)),
    ] {
        assert_error(fixture.attach(&volume, &node).await, CloudErrorKind::NotFound(missing));
    }
    assert_eq!(fixture.accepted(Action::AttachVolume), 0);
}

#[tokio::test(start_paused = true)]
async fn concurrent_attaches_to_one_node_use_different_names() {
    let fixture = Fixture::new().await;
    fixture.timing(attach_ms(3_000)).await;
    let [node, _] = fixture.nodes().await;
    let mut running = tokio::task::JoinSet::new();
    for n in 0..12 {
        let volume = fixture.volume(&format!("pvc-{n}")).await;
        let (cloud, waiters, node) = (fixture.cloud.clone(), fixture.waiters.clone(), node.clone());
        running.spawn(async move { cloud.attachments.attach(&volume.id, &node, &waiters).await.unwrap().device });
    }
    let mut names = running.join_all().await;
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 12);
    assert_eq!(fixture.count(Action::AttachVolume), 12, "no name was refused");
}

/// The wait has a limit, and the error names the instance.
#[tokio::test(start_paused = true)]
async fn volume_attached_elsewhere_is_refused_after_a_wait() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    let other = fixture.neighbour().await;
    fixture.attach(&volume, &node).await.unwrap();
    let began = Instant::now();
    let error = assert_error(fixture.attach(&volume, &other).await, CloudErrorKind::FailedPrecondition);
    assert_mentions(&error, &[&node.to_string()]);
    assert!((10..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(fixture.accepted(Action::AttachVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn volume_detaching_elsewhere_is_attached_when_it_is_free() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.timing(detach_ms(20_000)).await;
    let other = InstanceId::parse("i-0123456789abcdef0").unwrap();
    fixture.attach(&volume, &node).await.unwrap();
    let began = Instant::now();
    // EC2 shows the attachment at another instance while it is being detached.
    fixture.ec2.override_volumes(move |volumes| {
        volumes.iter_mut().flat_map(|v| &mut v.attachments).for_each(|a| {
            if began.elapsed().as_secs() < 30 {
                a.instance = Some(other.clone());
                a.state = AttachmentState::Detaching;
            }
        });
    });
    fixture.attach(&volume, &node).await.unwrap();
    assert!((30..40).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn volume_detaching_from_the_node_is_attached_again() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.timing(detach_ms(20_000)).await;
    fixture.attach(&volume, &node).await.unwrap();
    fixture
        .supersede(Action::DetachVolume, async |waiters| {
            fixture.cloud.attachments.detach(&volume, &node, waiters).await.map(drop)
        })
        .await;
    let attached = fixture.attach(&volume, &node).await.unwrap();
    assert_eq!(fixture.accepted(Action::AttachVolume), 2);
    assert_eq!(attached.volume.attachments[0].state, AttachmentState::Attached);
}

#[tokio::test(start_paused = true)]
async fn multi_attach_volume_may_be_attached_elsewhere() {
    let fixture = Fixture::new().await;
    let shared = VolumeSpec {
        multi_attach: true,
        volume_type: VolumeType::Io2,
        iops: IopsRequest::explicit(100),
        ..in_zone(spec("pvc-1"), "us-west-2a")
    };
    let volume = fixture.create(&shared).await.unwrap();
    let [node, _] = fixture.nodes().await;
    let other = InstanceId::parse("i-0123456789abcdef0").unwrap();
    fixture.ec2.override_volumes(move |volumes| {
        for volume in volumes.iter_mut().filter(|v| v.multi_attach == Some(true)) {
            let elsewhere = ebs_ec2::Attachment {
                volume: volume.id.clone(),
                instance: Some(other.clone()),
                associated_resource: None,
                device: Some(DeviceName::new("/dev/xvdaa")),
                state: AttachmentState::Attached,
                card: None,
                attach_time: None,
                said_at: None,
            };
            volume.attachments.push(elsewhere);
        }
    });
    let attached = fixture.attach(&volume.id, &node).await.unwrap();
    assert_eq!(attached.volume.attachments.len(), 2);
}

/// The attempt ends without a final error, and the next one uses another device name.
#[tokio::test(start_paused = true)]
async fn attachment_stuck_for_90_s_is_detached() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.timing(attach_ms(100_000_000)).await;
    let began = Instant::now();
    assert_error(fixture.attach(&volume, &node).await, CloudErrorKind::InProgress);
    assert!((90..100).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(fixture.count(Action::DetachVolume), 1);
    fixture.timing(attach_ms(0)).await;
    let fresh = fixture.attach(&volume, &node).await.expect("the next attempt is a fresh start");
    assert_eq!(fixture.accepted(Action::AttachVolume), 2);
    assert_eq!(fresh.device.as_str(), "/dev/xvdab", "another name, the first may be what is stuck");
}

#[tokio::test(start_paused = true)]
async fn volume_in_another_zone_than_the_node_is_refused() {
    let fixture = Fixture::new().await;
    let volume = fixture.create(&in_zone(spec("pvc-1"), "us-west-2b")).await.unwrap();
    let [node, _] = fixture.nodes().await;
    let error = assert_error(fixture.attach(&volume.id, &node).await, CloudErrorKind::FailedPrecondition);
    assert_mentions(&error, &["different zones"]);
}

/// No describe shows the obstacle within 15 s, so the attach is tried again.
#[tokio::test(start_paused = true)]
async fn attach_is_retried_after_an_obstacle_that_disappeared() {
    for class in [ErrorClass::VolumeInUse, ErrorClass::IncorrectState] {
        let (fixture, volume, node) = Fixture::with_volume_and_node().await;
        fixture.sim.fail_next(Action::AttachVolume, class, false);
        fixture.attach(&volume, &node).await.expect("nothing is in the way any more");
        assert_eq!(fixture.accepted(Action::AttachVolume), 1, "{class:?}");
    }
}

/// No describe shows where the volume is in use.
#[tokio::test(start_paused = true)]
async fn second_in_use_refusal_fails_with_ec2s_message() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    for _ in 0..2 {
        fixture.sim.fail_next(Action::AttachVolume, ErrorClass::VolumeInUse, false);
    }
    assert_error(fixture.attach(&volume, &node).await, CloudErrorKind::FailedPrecondition);
    assert_eq!(fixture.count(Action::AttachVolume), 2);
}

#[tokio::test(start_paused = true)]
async fn attach_wait_continues_without_waiters_unless_superseded() {
    for superseded in [false, true] {
        let (fixture, volume, node) = Fixture::with_volume_and_node().await;
        fixture.timing(attach_ms(60_000)).await;
        let waiters = Waiters::default();
        let waiter = waiters.join();
        let began = Instant::now();
        let gate = fixture.sim.hold(Action::AttachVolume);
        let (ended, _successor) = tokio::join!(fixture.cloud.attachments.attach(&volume, &node, &waiters), async {
            gate.reached().await;
            gate.release();
            drop(waiter);
            tokio::time::sleep(Duration::from_secs(5)).await;
            superseded.then(|| waiters.supersede())
        });
        if superseded {
            assert!(matches!(ended, Err(CloudError { kind: CloudErrorKind::Abandoned, .. })), "{ended:?}");
            assert_eq!(began.elapsed().as_secs(), 5);
        } else {
            ended.expect("attached, although no client waits");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn throttles_only_delay_an_attach() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    for action in
        [Action::AttachVolume, Action::DescribeInstances, Action::DescribeVolumes, Action::DescribeInstanceTypes]
    {
        fixture.sim.fail_next(action, ErrorClass::Throttled, false);
    }
    fixture.attach(&volume, &node).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn volume_in_creation_is_attached_when_it_is_available() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { create_ms: Some(30_000), ..TimingOverride::default() }).await;
    let id = fixture.stranger(request(&spec("pvc-1"), "token")).await;
    let [node, _] = fixture.nodes().await;
    fixture.attach(&id, &node).await.unwrap();
    assert_eq!(fixture.accepted(Action::AttachVolume), 1);
}

/// If EC2 does not report the number of cards, the built-in table is used for a short time.
#[tokio::test(start_paused = true)]
async fn volumes_are_spread_over_ebs_cards() {
    let config = EngineConfig { instance_type: "r8gb.48xlarge".to_owned(), ..EngineConfig::default() };
    for type_is_told in [true, false] {
        let fixture = Fixture::with(config.clone()).await;
        let [node, _] = fixture.nodes().await;
        if !type_is_told {
            fixture.sim.fail_next(Action::DescribeInstanceTypes, ErrorClass::Unauthorized, false);
        }
        for n in 0..4 {
            let volume = fixture.volume(&format!("pvc-{n}")).await;
            fixture.attach(&volume.id, &node).await.unwrap();
        }
        let calls = fixture.sim.calls().into_iter();
        let cards: Vec<_> =
            calls.filter_map(|c| if let Call::AttachVolume(r) = c.request { r.ebs_card_index } else { None }).collect();
        assert_eq!(cards, [0, 1, 0, 1], "told: {type_is_told}");
        assert_eq!(fixture.count(Action::DescribeInstanceTypes), 1, "the answer is kept for a while");
    }
}

use std::time::Duration;

use ebs_cloud::{CloudError, CloudErrorKind, Object};
use ebs_ec2::{Action, AttachmentState, ErrorClass, InstanceId, NodeId, VolumeId, Waiters};
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

#[tokio::test(start_paused = true)]
async fn attach_succeeds_only_when_ec2_shows_the_attachment() {
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
async fn device_name_chosen_by_another_client_is_kept() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.attach_by_hand(&volume, &node, "/dev/sdq").await;
    let attached = fixture.attach(&volume, &node).await.unwrap();
    assert_eq!(attached.device.as_str(), "/dev/sdq");
    assert_eq!(fixture.accepted(Action::AttachVolume), 1, "the one by hand");
}

#[tokio::test(start_paused = true)]
async fn unclear_attach_fails_and_the_next_attempt_attaches() {
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
async fn attach_is_not_repeated_before_its_attachment_is_listed() {
    for reply_is_lost in [false, true] {
        let (fixture, volume, node) = Fixture::with_volume_and_node().await;
        if reply_is_lost {
            fixture.sim.fail_next(Action::AttachVolume, ErrorClass::Ambiguous, true);
        }
        fixture.ec2.hide_attachments(13);
        fixture.attach(&volume, &node).await.unwrap();
        assert_eq!(fixture.count(Action::AttachVolume), 1, "{reply_is_lost}");
    }
}

#[tokio::test(start_paused = true)]
async fn attach_error_names_the_missing_volume_or_instance() {
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
async fn attach_of_volume_attached_elsewhere_fails_after_10_s() {
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
async fn attach_waits_for_a_detach_from_another_node() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.timing(detach_ms(20_000)).await;
    let other = InstanceId::parse("i-0123456789abcdef0").unwrap();
    fixture.attach(&volume, &node).await.unwrap();
    let began = Instant::now();
    // Describes show the volume detaching from another instance for 30 s.
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
    fixture.abandon_detach(&volume, &node).await;
    let attached = fixture.attach(&volume, &node).await.unwrap();
    assert_eq!(fixture.accepted(Action::AttachVolume), 2);
    assert_eq!(attached.volume.attachments[0].state, AttachmentState::Attached);
}

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
async fn attach_to_a_node_in_another_zone_is_refused() {
    let fixture = Fixture::new().await;
    let volume = fixture.create(&in_zone(spec("pvc-1"), "us-west-2b")).await.unwrap();
    let [node, _] = fixture.nodes().await;
    let error = assert_error(fixture.attach(&volume.id, &node).await, CloudErrorKind::FailedPrecondition);
    assert_mentions(&error, &["different zones"]);
}

/// If DescribeVolumes replies show no obstacle for 15 s, the driver retries the attach.
#[tokio::test(start_paused = true)]
async fn attach_is_retried_after_an_obstacle_that_disappeared() {
    for class in [ErrorClass::VolumeInUse, ErrorClass::IncorrectState] {
        let (fixture, volume, node) = Fixture::with_volume_and_node().await;
        fixture.sim.fail_next(Action::AttachVolume, class, false);
        fixture.attach(&volume, &node).await.expect("nothing is in the way any more");
        assert_eq!(fixture.accepted(Action::AttachVolume), 1, "{class:?}");
    }
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

/// If EC2 does not report the number of cards, the driver uses the built-in table for a short time.
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

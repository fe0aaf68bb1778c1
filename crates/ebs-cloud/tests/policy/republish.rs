//! Tests of attaches without a preceding describe, and of EC2's refusals, with one and with two driver processes.

use std::time::Duration;

use ebs_cloud::{CloudErrorKind, Object};
use ebs_ec2::{Action, Attachments, ConnectionId, DetachRequest, ErrorClass, Limit, Waiters};
use ebs_sim::engine::TimingOverride;
use ebs_sim::faults::{Effect, Rule};
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, assert_mentions, message_of};

/// Shows earlier attachments for `seconds` from now, as a stale describe does, with the current date.
fn show_earlier(fixture: &Fixture, seconds: u64, earlier: Vec<ebs_ec2::Attachment>) {
    let until = Instant::now() + Duration::from_secs(seconds);
    fixture.ec2.override_volumes(move |volumes| {
        for volume in volumes.iter_mut().filter(|v| Instant::now() < until && !v.attachments.is_empty()) {
            let said_at = volume.attachments[0].said_at;
            volume.attachments = earlier.iter().map(|a| ebs_ec2::Attachment { said_at, ..a.clone() }).collect();
        }
    });
}

#[tokio::test(start_paused = true)]
async fn attach_is_sent_without_a_describe() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.sim.clear_calls();
    fixture.attach(&volume, &node).await.unwrap();
    let actions = fixture.actions();
    let attach = actions.iter().position(|a| *a == Action::AttachVolume).expect("it was attached");
    assert!(!actions[..attach].contains(&Action::DescribeVolumes), "{actions:?}");
    assert_eq!(actions[attach + 1..], [Action::DescribeVolumes], "one describe shows it");
}

/// The driver never uses a device name twice.
#[tokio::test(start_paused = true)]
async fn instance_description_is_reused_for_attaches_within_30_s() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let mut names = Vec::new();
    for n in 0..6 {
        let volume = fixture.volume(&format!("pvc-{n}")).await;
        names.push(fixture.attach(&volume.id, &node).await.unwrap().device);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 6);
    assert_eq!(fixture.count(Action::DescribeInstances), 1);
    fixture.pass(60).await;
    let volume = fixture.volume("pvc-later").await;
    fixture.attach(&volume.id, &node).await.unwrap();
    assert_eq!(fixture.count(Action::DescribeInstances), 2);
    assert_eq!(fixture.accepted(Action::AttachVolume), fixture.count(Action::AttachVolume), "no name was taken twice");
}

#[tokio::test(start_paused = true)]
async fn device_name_is_not_chosen_from_a_stale_description() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let (quick, slow) = (fixture.volume("a").await, fixture.volume("b").await);
    let gate = fixture.sim.hold(Action::DescribeInstanceTypes);
    let (attached, ()) = tokio::join!(fixture.attach(&slow.id, &node), async {
        gate.reached().await;
        fixture.attach_by_hand(&quick.id, &node, "/dev/xvdaa").await;
        fixture.pass(60).await;
        gate.release();
    });
    assert_eq!(attached.unwrap().device.as_str(), "/dev/xvdab");
    assert_eq!(fixture.accepted(Action::AttachVolume), fixture.count(Action::AttachVolume), "no name was taken twice");
}

#[tokio::test(start_paused = true)]
async fn attach_describes_instance_again_if_device_name_is_in_use() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let (one, stranger, two) = (fixture.volume("a").await, fixture.volume("b").await, fixture.volume("c").await);
    fixture.attach(&one.id, &node).await.unwrap();
    fixture.attach_by_hand(&stranger.id, &node, "/dev/xvdab").await;
    let attached = fixture.attach(&two.id, &node).await.unwrap();
    assert_eq!(attached.device.as_str(), "/dev/xvdac");
    assert_eq!(fixture.count(Action::DescribeInstances), 2);
}

#[tokio::test(start_paused = true)]
async fn refused_attach_succeeds_if_the_volume_is_attached() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    let first = fixture.attach(&volume, &node).await.unwrap();
    for class in [
        ErrorClass::LimitExceeded(Limit::Attachments),
        ErrorClass::ZoneMismatch,
        ErrorClass::InvalidParameter,
        ErrorClass::Unsupported,
        ErrorClass::IncorrectState,
        ErrorClass::VolumeInUse,
        ErrorClass::Other,
    ] {
        fixture.sim.fail_next(Action::AttachVolume, class, false);
        let again = fixture.attach(&volume, &node).await.unwrap();
        assert_eq!((again.device, again.attach_time), (first.device.clone(), first.attach_time), "{class:?}");
    }
}

/// A refused attach releases its device name.
#[tokio::test(start_paused = true)]
async fn each_attach_error_maps_to_its_error_kind() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    let missing = CloudErrorKind::NotFound(Object::Volume(volume.clone()));
    for (class, kind) in [
        (ErrorClass::LimitExceeded(Limit::Attachments), CloudErrorKind::LimitExceeded),
        (ErrorClass::ZoneMismatch, CloudErrorKind::FailedPrecondition),
        (ErrorClass::VolumeInUse, CloudErrorKind::FailedPrecondition),
        (ErrorClass::IncorrectState, CloudErrorKind::FailedPrecondition),
        (ErrorClass::Encryption, CloudErrorKind::FailedPrecondition),
        (ErrorClass::InvalidParameter, CloudErrorKind::InvalidArgument),
        (ErrorClass::Unsupported, CloudErrorKind::InvalidArgument),
        (ErrorClass::VolumeNotFound, missing.clone()),
        (ErrorClass::InstanceNotFound, CloudErrorKind::NotFound(Object::Instance(node.instance().clone()))),
        (ErrorClass::MalformedId, missing),
        (ErrorClass::Unauthorized, CloudErrorKind::Unauthorized),
        (ErrorClass::Unauthenticated, CloudErrorKind::Unauthenticated),
        (ErrorClass::NotSent, CloudErrorKind::Unavailable),
        (ErrorClass::Other, CloudErrorKind::Internal),
    ] {
        fixture.sim.fail_next(Action::AttachVolume, class, false);
        if matches!(class, ErrorClass::VolumeInUse | ErrorClass::IncorrectState) {
            // The driver retries once after such a refusal, because the obstacle may have disappeared.
            fixture.sim.fail_next(Action::AttachVolume, class, false);
        }
        let error = assert_error(fixture.attach(&volume, &node).await, kind);
        assert!(error.cause.as_ref().is_some_and(|e| e.class == class), "{class:?}: {error:?}");
    }
    let device = fixture.attach(&volume, &node).await.unwrap().device;
    assert_eq!(device.as_str(), "/dev/xvdaa", "no refused attempt has kept its name");
}

#[tokio::test(start_paused = true)]
async fn attach_fails_after_five_device_names_in_use() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    for _ in 0..5 {
        fixture.sim.fail_next(Action::AttachVolume, ErrorClass::DeviceNameInUse, false);
    }
    assert_error(fixture.attach(&volume, &node).await, CloudErrorKind::FailedPrecondition);
    assert_eq!(fixture.count(Action::AttachVolume), 5);
    assert_eq!(fixture.attach(&volume, &node).await.unwrap().device.as_str(), "/dev/xvdaf");
}

/// The driver reports an attachment that another process made only when describes can no longer show an older state.
#[tokio::test(start_paused = true)]
async fn own_attachment_is_reported_at_once() {
    let (mut fixture, volume, node) = Fixture::with_volume_and_node().await;
    let first = fixture.attach(&volume, &node).await.unwrap();
    let began = Instant::now();
    fixture.attach(&volume, &node).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    fixture.restart();
    let began = Instant::now();
    let again = fixture.attach(&volume, &node).await.unwrap();
    assert!((15..25).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!((first.device, first.attach_time), (again.device, again.attach_time));
    assert_eq!(fixture.accepted(Action::AttachVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn ended_attachment_in_a_stale_describe_is_not_reported() {
    let (mut fixture, volume, node) = Fixture::with_volume_and_node().await;
    let neighbour = fixture.neighbour().await;
    let old = fixture.attach(&volume, &node).await.unwrap().volume.attachments;
    fixture.pass(20).await;
    fixture.detach(&volume, &node).await.unwrap();
    fixture.attach(&volume, &neighbour).await.unwrap();
    fixture.restart();
    show_earlier(&fixture, 14, old);
    let error = fixture.attach(&volume, &node).await.unwrap_err();
    let kinds = [CloudErrorKind::OutcomeUnknown, CloudErrorKind::FailedPrecondition];
    assert!(kinds.contains(&error.kind), "{error:?}");
    let error = fixture.attach(&volume, &node).await.unwrap_err();
    assert_mentions(&error, &[&neighbour.to_string()]);
}

/// The attach times distinguish the two attachments.
#[tokio::test(start_paused = true)]
async fn stale_describe_of_an_earlier_attachment_proves_nothing() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.timing(TimingOverride { attach_ms: Some(8_000), ..TimingOverride::default() }).await;
    let old = fixture.attach(&volume, &node).await.unwrap();
    fixture.pass(20).await;
    fixture.detach(&volume, &node).await.unwrap();
    let began = Instant::now();
    show_earlier(&fixture, 6, old.volume.attachments.clone());
    let new = fixture.attach(&volume, &node).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(8), "{:?}", began.elapsed());
    assert_ne!(new.attach_time, old.attach_time);
}

#[tokio::test(start_paused = true)]
async fn attach_after_a_lost_attach_reply_describes_first() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.sim.fail_next(Action::AttachVolume, ErrorClass::Ambiguous, true);
    fixture.abandon_attach(&volume, &node).await;
    fixture.attach(&volume, &node).await.unwrap();
    assert_eq!(fixture.count(Action::AttachVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn detaching_attachment_is_not_reported_as_attached() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.timing(TimingOverride { detach_ms: Some(30_000), ..TimingOverride::default() }).await;
    let first = fixture.attach(&volume, &node).await.unwrap();
    fixture.pass(400).await;
    fixture.abandon_detach(&volume, &node).await;
    show_earlier(&fixture, 14, first.volume.attachments);
    let again = fixture.attach(&volume, &node).await;
    assert!(again.is_err() || again.is_ok_and(|a| a.attach_time != first.attach_time), "it was on its way out");
}

#[tokio::test(start_paused = true)]
async fn attachment_that_this_process_detached_is_not_reported() {
    for restarted in [false, true] {
        let (mut fixture, volume, node) = Fixture::with_volume_and_node().await;
        let neighbour = fixture.neighbour().await;
        let old = fixture.attach(&volume, &node).await.unwrap().volume.attachments;
        if restarted {
            fixture.restart();
        }
        fixture.pass(40).await;
        fixture.detach(&volume, &node).await.unwrap();
        fixture.twin().attachments.attach(&volume, &neighbour, &fixture.waiters).await.unwrap();
        show_earlier(&fixture, 13, old);
        let again = fixture.attach(&volume, &node).await;
        assert!(again.is_err(), "restarted: {restarted}: it is attached to {neighbour}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_processes_attach_to_one_node_without_conflicts() {
    let fixture = Fixture::new().await;
    fixture
        .timing(TimingOverride { attach_ms: Some(3_000), detach_ms: Some(3_000), ..TimingOverride::default() })
        .await;
    let [node, _] = fixture.nodes().await;
    let clouds = [fixture.cloud.clone(), fixture.twin()];
    let mut running = tokio::task::JoinSet::new();
    for n in 0..10 {
        for cloud in &clouds {
            let volume = fixture.volume(&format!("pvc-{n}-{}", running.len())).await.id;
            let (cloud, waiters, node) = (cloud.clone(), fixture.waiters.clone(), node.clone());
            running.spawn(async move {
                let device = cloud.attachments.attach(&volume, &node, &waiters).await.unwrap().device;
                (volume, device)
            });
        }
    }
    let made = running.join_all().await;
    let mut names: Vec<_> = made.iter().map(|(_, device)| device.clone()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 20);
    for (n, (volume, _)) in made.iter().enumerate() {
        clouds[n % 2].attachments.detach(volume, &node, &fixture.waiters).await.unwrap();
    }
    assert!(fixture.volumes().await.iter().all(|v| v.attachments.is_empty()));
}

/// The driver detaches the volume only once it has seen the attachment for longer than a describe can be stale. The
/// next attempt uses another device name.
#[tokio::test(start_paused = true)]
async fn stuck_attachment_of_another_process_is_detached() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.timing(TimingOverride { attach_ms: Some(100_000_000), ..TimingOverride::default() }).await;
    fixture.attach_by_hand(&volume, &node, "/dev/xvdaa").await;
    fixture.pass(100).await;
    let began = Instant::now();
    assert_error(fixture.attach(&volume, &node).await, CloudErrorKind::InProgress);
    assert!((15..30).contains(&began.elapsed().as_secs()), "only a certain attachment: {:?}", began.elapsed());
    assert_eq!(fixture.accepted(Action::DetachVolume), 1);
    fixture.timing(TimingOverride { attach_ms: Some(0), ..TimingOverride::default() }).await;
    let fresh = fixture.attach(&volume, &node).await.unwrap();
    assert_eq!(fresh.device.as_str(), "/dev/xvdab");
}

#[tokio::test(start_paused = true)]
async fn error_names_both_nodes_of_a_volume_listed_twice() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, other] = fixture.nodes().await;
    fixture.timing(TimingOverride { attach_ms: Some(20_000), ..TimingOverride::default() }).await;
    let second = other.instance().clone();
    fixture.ec2.override_volumes(move |volumes| {
        for volume in volumes {
            let also = volume.attachments.first().cloned().map(|a| ebs_ec2::Attachment {
                instance: Some(second.clone()),
                state: ebs_ec2::AttachmentState::Attached,
                ..a
            });
            volume.attachments.extend(also);
        }
    });
    let error = assert_error(fixture.attach(&volume.id, &node).await, CloudErrorKind::Internal);
    assert!([&node, &other].iter().all(|n| message_of(&error).contains(&n.to_string())), "{}", message_of(&error));
}

/// EC2 may carry out an unanswered DetachVolume within 15 s.
#[tokio::test(start_paused = true)]
async fn attach_waits_for_an_unanswered_detach() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.attach(&volume, &node).await.unwrap();
    fixture.pass(16).await;
    fixture.detach(&volume, &node).await.unwrap();
    fixture.pass(16).await;
    // The orchestrator repeats the detach, and EC2's answer is lost.
    fixture.sim.fail_next(Action::DetachVolume, ErrorClass::Ambiguous, false);
    let lost = Instant::now();
    let leaves = tokio::time::timeout(Duration::from_secs(1), fixture.detach(&volume, &node));
    assert!(leaves.await.is_err(), "it is not known what became of it");
    fixture.sim.clear_calls();
    fixture.attach(&volume, &node).await.unwrap();
    assert!(lost.elapsed() >= Duration::from_secs(15), "answered after {:?}", lost.elapsed());
}

/// The stuck attachment's DetachVolume got no answer. EC2 may carry it out within 15 s, even after the volume is
/// attached.
#[tokio::test(start_paused = true)]
async fn reattach_waits_for_the_late_detach_of_a_stuck_attachment() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    let rule = Rule::new(Effect::StuckAttaching).times(1);
    fixture.sim.faults().add(rule).expect("a rule");
    fixture.sim.fail_next(Action::DetachVolume, ErrorClass::Ambiguous, false);
    assert_error(fixture.attach(&volume, &node).await, CloudErrorKind::InProgress);
    fixture.sim.engine().release_all();
    let request = DetachRequest { volume: volume.clone(), instance: node.instance().clone() };
    let late = async {
        tokio::time::sleep(Duration::from_secs(14)).await;
        fixture.sim.detach_volume(&request).await.map(drop)
    };
    let (attached, late) = tokio::join!(fixture.attach(&volume, &node), late);
    late.expect("there is something to detach");
    attached.expect("it is attached again");
    let attachments = fixture.volumes().await.remove(0).attachments;
    assert_eq!(attachments.iter().map(|a| a.state.as_str()).collect::<Vec<_>>(), ["attached"]);
}

/// The driver remembers an attachment for a day, so it does not wait when the attacher uses a new connection.
#[tokio::test(start_paused = true)]
async fn attachment_made_hours_ago_is_reported_at_once() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.attach(&volume, &node).await.unwrap();
    fixture.pass(23 * 3600).await;
    fixture.connect(ConnectionId::unique());
    let began = Instant::now();
    fixture.attach(&volume, &node).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

/// EC2 accepts the first AttachVolume and refuses the second. The refusal must not release the device name of the first
/// attachment.
#[tokio::test(start_paused = true)]
async fn refused_attach_keeps_the_device_name_of_an_accepted_one() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { attach_ms: Some(20_000), ..TimingOverride::default() }).await;
    let (one, two) = (fixture.volume("a").await.id, fixture.volume("b").await.id);
    let [node, _] = fixture.nodes().await;
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let gate = fixture.sim.hold(Action::AttachVolume);
    let (given_up, _successor) = tokio::join!(fixture.cloud.attachments.attach(&one, &node, &waiters), async {
        gate.reached().await;
        gate.release();
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(waiter);
        waiters.supersede()
    });
    given_up.unwrap_err();
    let (first, second) = tokio::join!(fixture.attach(&one, &node), async {
        fixture.called(Action::AttachVolume, 2).await;
        fixture.attach(&two, &node).await
    });
    assert_ne!(first.unwrap().device, second.unwrap().device);
    assert_eq!((fixture.count(Action::AttachVolume), fixture.accepted(Action::AttachVolume)), (3, 2));
}

/// The driver removes the detached volume from the cached description of the instance.
#[tokio::test(start_paused = true)]
async fn device_name_of_a_detached_volume_is_free_at_once() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let volumes = [fixture.volume("a").await.id, fixture.volume("b").await.id, fixture.volume("c").await.id];
    let attach = async |n: usize| fixture.attach(&volumes[n], &node).await.expect("there is room").device;
    let first = attach(0).await;
    fixture.pass(60).await;
    // This attach describes the instance again, while the first volume is still attached.
    attach(1).await;
    fixture.detach(&volumes[0], &node).await.unwrap();
    assert_eq!((attach(2).await, fixture.count(Action::DescribeInstances)), (first, 2));
}

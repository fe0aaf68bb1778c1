//! Attaching without a describe first: what refusals lead to, also beside another process.

use std::time::Duration;

use ebs_cloud::{CloudError, CloudErrorKind};
use ebs_ec2::{Action, AttachRequest, Attachments, DetachRequest, ErrorClass, Limit};
use ebs_sim::engine::TimingOverride;
use ebs_sim::faults::{Effect, Rule};
use ebs_types::{ConnectionId, DeviceName, NodeId, VolumeId, Waiters};
use tokio::time::Instant;

use crate::fixture::{Fixture, message_of};

/// As a describe that lags does: what was, said now.
fn show(volume: &mut ebs_ec2::Volume, old: &[ebs_ec2::Attachment]) {
    let said_at = volume.attachments.first().and_then(|a| a.said_at);
    volume.attachments = old.iter().map(|a| ebs_ec2::Attachment { said_at, ..a.clone() }).collect();
}

async fn attach_by_hand(fixture: &Fixture, volume: &VolumeId, node: &NodeId, device: &str) {
    let request = AttachRequest {
        volume: volume.clone(),
        instance: node.instance().clone(),
        device: DeviceName::new(device),
        card: None,
    };
    fixture.sim.attach_volume(&request).await.expect("the attachment is possible");
}

/// Nothing is asked of a volume before it is attached, and one look shows it attached.
#[tokio::test(start_paused = true)]
async fn nothing_is_asked_of_a_volume_before_it_is_attached() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    fixture.sim.clear_calls();
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    let actions = fixture.actions();
    let attach = actions.iter().position(|a| *a == Action::AttachVolume).expect("it was attached");
    assert!(!actions[..attach].contains(&Action::DescribeVolumes), "{actions:?}");
    assert_eq!(actions[attach + 1..], [Action::DescribeVolumes], "one look shows it");
}

/// An instance is described once for the attachments of half a minute, and no name is taken twice for it.
#[tokio::test(start_paused = true)]
async fn an_instance_is_described_once_for_many_attachments_and_anew_after_a_while() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let mut names = Vec::new();
    for n in 0..6 {
        let volume = fixture.volume(&format!("pvc-{n}")).await;
        names.push(fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap().device);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 6);
    assert_eq!(fixture.count(Action::DescribeInstances), 1);
    fixture.pass(60).await;
    let volume = fixture.volume("pvc-later").await;
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    assert_eq!(fixture.count(Action::DescribeInstances), 2);
    assert_eq!(fixture.accepted(Action::AttachVolume), fixture.count(Action::AttachVolume), "no name was taken twice");
}

/// A description of an instance that grew old while something else was asked gives no device name.
#[tokio::test(start_paused = true)]
async fn a_description_that_grew_old_while_something_else_was_asked_gives_no_device_name() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let (quick, slow) = (fixture.volume("a").await, fixture.volume("b").await);
    let gate = fixture.sim.hold(Action::DescribeInstanceTypes);
    let (attached, ()) = tokio::join!(fixture.cloud.attachments.attach(&slow.id, &node, &fixture.waiters), async {
        gate.reached().await;
        attach_by_hand(&fixture, &quick.id, &node, "/dev/xvdaa").await;
        fixture.pass(60).await;
        gate.release();
    });
    assert_eq!(attached.unwrap().device.as_str(), "/dev/xvdab");
    assert_eq!(fixture.accepted(Action::AttachVolume), fixture.count(Action::AttachVolume), "no name was taken twice");
}

/// A name that somebody else took leads to a fresh description and another name.
#[tokio::test(start_paused = true)]
async fn a_name_that_somebody_else_took_meanwhile_leads_to_a_fresh_describe_and_another_name() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let (one, stranger, two) = (fixture.volume("a").await, fixture.volume("b").await, fixture.volume("c").await);
    fixture.cloud.attachments.attach(&one.id, &node, &fixture.waiters).await.unwrap();
    attach_by_hand(&fixture, &stranger.id, &node, "/dev/xvdab").await;
    let attached = fixture.cloud.attachments.attach(&two.id, &node, &fixture.waiters).await.unwrap();
    assert_eq!(attached.device.as_str(), "/dev/xvdac");
    assert_eq!(fixture.count(Action::DescribeInstances), 2);
}

/// A refusal for any reason is a success when the volume is attached to that node already.
#[tokio::test(start_paused = true)]
async fn a_refusal_for_any_reason_is_a_success_when_the_volume_is_attached_there_already() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    let first = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
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
        let again = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
        assert_eq!((again.device, again.attach_time), (first.device.clone(), first.attach_time), "{class:?}");
    }
}

/// A refusal of AttachVolume for a volume that is not attached to that node keeps its meaning and EC2's words, and the
/// name is free again.
#[tokio::test(start_paused = true)]
async fn a_refusal_keeps_its_meaning_when_the_volume_is_not_attached_there() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    type Fits = fn(&CloudError) -> bool;
    let limit: Fits = |e| matches!(e.kind, CloudErrorKind::LimitExceeded);
    let state: Fits = |e| matches!(e.kind, CloudErrorKind::FailedPrecondition);
    let argument: Fits = |e| matches!(e.kind, CloudErrorKind::InvalidArgument);
    let missing: Fits = |e| matches!(e.kind, CloudErrorKind::NotFound(_));
    let rights: Fits = |e| matches!(e.kind, CloudErrorKind::Unauthorized);
    let credentials: Fits = |e| matches!(e.kind, CloudErrorKind::Unauthenticated);
    let later: Fits = |e| matches!(e.kind, CloudErrorKind::Unavailable);
    let other: Fits = |e| matches!(e.kind, CloudErrorKind::Internal);
    for (class, fits) in [
        (ErrorClass::LimitExceeded(Limit::Attachments), limit),
        (ErrorClass::ZoneMismatch, state),
        (ErrorClass::VolumeInUse, state),
        (ErrorClass::IncorrectState, state),
        (ErrorClass::Encryption, state),
        (ErrorClass::InvalidParameter, argument),
        (ErrorClass::Unsupported, argument),
        (ErrorClass::VolumeNotFound, missing),
        (ErrorClass::InstanceNotFound, missing),
        (ErrorClass::MalformedId, missing),
        (ErrorClass::Unauthorized, rights),
        (ErrorClass::Unauthenticated, credentials),
        (ErrorClass::NotSent, later),
        (ErrorClass::Other, other),
    ] {
        fixture.sim.fail_next(Action::AttachVolume, class, false);
        if matches!(class, ErrorClass::VolumeInUse | ErrorClass::IncorrectState) {
            // What was in the way may have gone since: it is asked once more.
            fixture.sim.fail_next(Action::AttachVolume, class, false);
        }
        let error = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap_err();
        assert!(fits(&error), "{class:?}: {error:?}");
        assert!(error.cause.as_ref().is_some_and(|e| e.class == class), "{class:?}: {error:?}");
    }
    let device = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap().device;
    assert_eq!(device.as_str(), "/dev/xvdaa", "no refused attempt has kept its name");
}

/// Names that are all refused end the attempt after five, and the next goes on with others.
#[tokio::test(start_paused = true)]
async fn names_that_are_all_refused_end_the_attempt() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    for _ in 0..5 {
        fixture.sim.fail_next(Action::AttachVolume, ErrorClass::DeviceNameInUse, false);
    }
    let error = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::FailedPrecondition), "{error:?}");
    assert_eq!(fixture.count(Action::AttachVolume), 5);
    assert_eq!(
        fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap().device.as_str(),
        "/dev/xvdaf"
    );
}

/// An attachment that this process made is believed at once, one made by others when looks cannot show the past.
#[tokio::test(start_paused = true)]
async fn our_own_attachment_is_believed_at_once_and_one_of_others_when_describes_cannot_show_the_past() {
    let mut fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    let began = Instant::now();
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    fixture.restart();
    let began = Instant::now();
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    assert!((15..25).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

/// An attachment that is over is not reported because looks still list it.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_is_over_is_not_reported_because_describes_still_list_it() {
    let mut fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    let neighbour = fixture.neighbour().await;
    let old = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap().volume.attachments;
    fixture.pass(20).await;
    fixture.cloud.attachments.detach(&volume.id, &node, &fixture.waiters).await.unwrap();
    fixture.cloud.attachments.attach(&volume.id, &neighbour, &fixture.waiters).await.unwrap();
    fixture.restart();
    let until = Instant::now() + Duration::from_secs(14);
    fixture.ec2.override_volumes(move |volumes| {
        for volume in volumes.iter_mut().filter(|v| !v.attachments.is_empty()) {
            if Instant::now() < until {
                show(volume, &old);
            }
        }
    });
    let error = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap_err();
    assert!(
        matches!(
            error,
            CloudError { kind: CloudErrorKind::OutcomeUnknown, .. }
                | CloudError { kind: CloudErrorKind::FailedPrecondition, .. }
        ),
        "{error:?}"
    );
    let error = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap_err();
    assert!(message_of(&error).contains(&neighbour.to_string()), "{}", message_of(&error));
}

/// An earlier attachment that is still listed is told from the new one by its attach time.
#[tokio::test(start_paused = true)]
async fn an_earlier_attachment_still_listed_is_not_taken_for_the_new_one() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { attach_ms: Some(8_000), ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    let old = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    fixture.pass(20).await;
    fixture.cloud.attachments.detach(&volume.id, &node, &fixture.waiters).await.unwrap();
    let began = Instant::now();
    let stale = old.volume.attachments.clone();
    fixture.ec2.override_volumes(move |volumes| {
        if began.elapsed() < Duration::from_secs(6) {
            volumes.iter_mut().for_each(|v| v.attachments.clone_from(&stale));
        }
    });
    let new = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(8), "{:?}", began.elapsed());
    assert_ne!(new.attach_time, old.attach_time);
}

/// After a lost answer the next attempt looks before it calls AttachVolume.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_not_followed_by_a_blind_second_call_of_the_next_attempt() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    fixture.sim.fail_next(Action::AttachVolume, ErrorClass::Ambiguous, true);
    let waiters = ebs_types::Waiters::default();
    let waiter = waiters.join();
    let gate = fixture.sim.hold(Action::AttachVolume);
    let (given_up, _successor) = tokio::join!(fixture.cloud.attachments.attach(&volume.id, &node, &waiters), async {
        gate.reached().await;
        drop(waiter);
        let successor = waiters.supersede();
        gate.release();
        successor
    });
    given_up.unwrap_err();
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    assert_eq!(fixture.count(Action::AttachVolume), 1);
}

/// An attachment that this process has ended or begun to end is not reported because looks still list it.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_this_process_has_begun_to_end_is_not_reported_because_describes_still_list_it() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { detach_ms: Some(30_000), ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    let first = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    fixture.pass(400).await;
    let waiters = ebs_types::Waiters::default();
    let waiter = waiters.join();
    let gate = fixture.sim.hold(Action::DetachVolume);
    let (given_up, _successor) = tokio::join!(fixture.cloud.attachments.detach(&volume.id, &node, &waiters), async {
        gate.reached().await;
        drop(waiter);
        let successor = waiters.supersede();
        gate.release();
        successor
    });
    given_up.unwrap_err();
    let (until, listed) = (Instant::now() + Duration::from_secs(14), first.volume.attachments);
    fixture.ec2.override_volumes(move |volumes| {
        for volume in volumes.iter_mut().filter(|v| !v.attachments.is_empty()) {
            if Instant::now() < until {
                show(volume, &listed);
            }
        }
    });
    let again = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await;
    assert!(again.is_err() || again.is_ok_and(|a| a.attach_time != first.attach_time), "it was on its way out");
}

#[tokio::test(start_paused = true)]
async fn an_attachment_that_this_process_has_ended_is_not_reported_because_describes_still_list_it() {
    for restarted in [false, true] {
        let mut fixture = Fixture::new().await;
        let volume = fixture.volume("pvc-1").await;
        let [node, _] = fixture.nodes().await;
        let neighbour = fixture.neighbour().await;
        let old =
            fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap().volume.attachments;
        if restarted {
            fixture.restart();
        }
        fixture.pass(40).await;
        fixture.cloud.attachments.detach(&volume.id, &node, &fixture.waiters).await.unwrap();
        fixture.twin().attachments.attach(&volume.id, &neighbour, &fixture.waiters).await.unwrap();
        let until = Instant::now() + Duration::from_secs(13);
        fixture.ec2.override_volumes(move |volumes| {
            for volume in volumes.iter_mut().filter(|v| !v.attachments.is_empty()) {
                if Instant::now() < until {
                    show(volume, &old);
                }
            }
        });
        let again = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await;
        assert!(again.is_err(), "restarted: {restarted}: it is attached to {neighbour}");
    }
}

/// Two processes that attach and detach at one node at the same time do not hurt each other.
#[tokio::test(start_paused = true)]
async fn two_processes_do_not_hurt_each_other() {
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

/// A stuck attachment of another process is taken back too, when looks show it for certain, and the fresh start has
/// another name.
#[tokio::test(start_paused = true)]
async fn a_stuck_attachment_of_another_process_is_taken_back_too() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { attach_ms: Some(100_000_000), ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    attach_by_hand(&fixture, &volume.id, &node, "/dev/xvdaa").await;
    fixture.pass(100).await;
    let began = Instant::now();
    let error = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InProgress), "{error:?}");
    assert!((15..30).contains(&began.elapsed().as_secs()), "only what looks show for certain: {:?}", began.elapsed());
    assert_eq!(fixture.accepted(Action::DetachVolume), 1);
    fixture.timing(TimingOverride { attach_ms: Some(0), ..TimingOverride::default() }).await;
    let fresh = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    assert_eq!(fresh.device.as_str(), "/dev/xvdab");
}

/// A volume for one node that EC2 lists at two is an error that names both.
#[tokio::test(start_paused = true)]
async fn a_volume_for_one_node_that_ec2_lists_at_two_is_an_error_that_names_both() {
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
    let error = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Internal), "{error:?}");
    assert!([&node, &other].iter().all(|n| message_of(&error).contains(&n.to_string())), "{}", message_of(&error));
}

/// A volume is attached again only when a DetachVolume that got no answer can no longer be carried out (15 s).
#[tokio::test(start_paused = true)]
async fn a_volume_is_attached_again_only_when_a_detach_without_an_answer_can_no_longer_be_carried_out() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await.id;
    let [node, _] = fixture.nodes().await;
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.pass(16).await;
    fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.pass(16).await;
    // Asked once more, as orchestrators do.
    fixture.sim.fail_next(Action::DetachVolume, ErrorClass::Ambiguous, false);
    let lost = Instant::now();
    let leaves = tokio::time::timeout(
        Duration::from_secs(1),
        fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters),
    );
    assert!(leaves.await.is_err(), "it is not known what became of it");
    fixture.sim.clear_calls();
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    assert!(lost.elapsed() >= Duration::from_secs(15), "answered after {:?}", lost.elapsed());
}

/// The DetachVolume that takes a stuck attachment back has got no answer: EC2 may carry it out at any time within 15 s, also
/// when the attachment has come meanwhile.
#[tokio::test(start_paused = true)]
async fn a_stuck_attachment_is_not_reported_while_its_end_may_come() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await.id;
    let [node, _] = fixture.nodes().await;
    let rule = Rule::new(Effect::StuckAttaching).times(1);
    fixture.sim.faults().add(rule).expect("a rule");
    fixture.sim.fail_next(Action::DetachVolume, ErrorClass::Ambiguous, false);
    let error = fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InProgress), "{error:?}");
    fixture.sim.engine().release_all();
    let request = DetachRequest { volume: volume.clone(), instance: node.instance().clone() };
    let late = async {
        tokio::time::sleep(Duration::from_secs(14)).await;
        fixture.sim.detach_volume(&request).await.map(drop)
    };
    let (attached, late) = tokio::join!(fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters), late);
    late.expect("there is something to detach");
    attached.expect("it is attached anew");
    let attachments = fixture.volumes().await.remove(0).attachments;
    assert_eq!(attachments.iter().map(|a| a.state.as_str()).collect::<Vec<_>>(), ["attached"]);
}

/// An attachment that this process has made is known for a day: a new connection of the attacher is no reason to wait.
#[tokio::test(start_paused = true)]
async fn an_attachment_made_hours_ago_is_believed_at_once() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await.id;
    let [node, _] = fixture.nodes().await;
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.pass(23 * 3600).await;
    fixture.connect(ConnectionId::unique());
    let began = Instant::now();
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

/// EC2 has taken the first AttachVolume, which holds its name; the second one is refused and must not give it away.
#[tokio::test(start_paused = true)]
async fn a_refused_attach_keeps_the_name_of_one_that_ec2_took() {
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
    let (first, second) = tokio::join!(fixture.cloud.attachments.attach(&one, &node, &fixture.waiters), async {
        fixture.called(Action::AttachVolume, 2).await;
        fixture.cloud.attachments.attach(&two, &node, &fixture.waiters).await
    });
    assert_ne!(first.unwrap().device, second.unwrap().device);
    assert_eq!((fixture.count(Action::AttachVolume), fixture.accepted(Action::AttachVolume)), (3, 2));
}

/// The description of an instance that is kept for a while forgets what has left it.
#[tokio::test(start_paused = true)]
async fn the_name_of_a_detached_volume_is_free_at_once() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let volumes = [fixture.volume("a").await.id, fixture.volume("b").await.id, fixture.volume("c").await.id];
    let attach = async |n: usize| {
        fixture.cloud.attachments.attach(&volumes[n], &node, &fixture.waiters).await.expect("there is room").device
    };
    let first = attach(0).await;
    fixture.pass(60).await;
    // Describes the instance, the first volume with it.
    attach(1).await;
    fixture.cloud.attachments.detach(&volumes[0], &node, &fixture.waiters).await.unwrap();
    assert_eq!((attach(2).await, fixture.count(Action::DescribeInstances)), (first, 2));
}

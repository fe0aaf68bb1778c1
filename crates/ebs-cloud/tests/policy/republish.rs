//! Attaching without a describe first: the effects of refusals, also with another process.

use std::time::Duration;

use ebs_cloud::{CloudError, CloudErrorKind};
use ebs_ec2::{Action, AttachRequest, Attachments, DetachRequest, ErrorClass, Limit};
use ebs_sim::engine::TimingOverride;
use ebs_sim::faults::{Effect, Rule};
use ebs_types::{ConnectionId, DeviceName, NodeId, VolumeId, Waiters};
use tokio::time::Instant;

use crate::fixture::{Fixture, message_of};

/// Shows an old state as a stale describe does, with the current date.
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

#[tokio::test(start_paused = true)]
async fn attach_is_sent_without_a_describe() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    fixture.sim.clear_calls();
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    let actions = fixture.actions();
    let attach = actions.iter().position(|a| *a == Action::AttachVolume).expect("it was attached");
    assert!(!actions[..attach].contains(&Action::DescribeVolumes), "{actions:?}");
    assert_eq!(actions[attach + 1..], [Action::DescribeVolumes], "one describe shows it");
}

/// No device name is used twice.
#[tokio::test(start_paused = true)]
async fn instance_is_described_once_for_30_s_of_attaches() {
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

#[tokio::test(start_paused = true)]
async fn outdated_description_gives_no_device_name() {
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

#[tokio::test(start_paused = true)]
async fn name_in_use_leads_to_another_describe_and_name() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let (one, stranger, two) = (fixture.volume("a").await, fixture.volume("b").await, fixture.volume("c").await);
    fixture.cloud.attachments.attach(&one.id, &node, &fixture.waiters).await.unwrap();
    attach_by_hand(&fixture, &stranger.id, &node, "/dev/xvdab").await;
    let attached = fixture.cloud.attachments.attach(&two.id, &node, &fixture.waiters).await.unwrap();
    assert_eq!(attached.device.as_str(), "/dev/xvdac");
    assert_eq!(fixture.count(Action::DescribeInstances), 2);
}

#[tokio::test(start_paused = true)]
async fn refused_attach_succeeds_if_the_volume_is_attached() {
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

/// The device name is free again.
#[tokio::test(start_paused = true)]
async fn attach_errors_keep_their_meaning() {
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
            // The obstacle may have disappeared, so the attach is tried again.
            fixture.sim.fail_next(Action::AttachVolume, class, false);
        }
        let error = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap_err();
        assert!(fits(&error), "{class:?}: {error:?}");
        assert!(error.cause.as_ref().is_some_and(|e| e.class == class), "{class:?}: {error:?}");
    }
    let device = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap().device;
    assert_eq!(device.as_str(), "/dev/xvdaa", "no refused attempt has kept its name");
}

/// The limit is five names. The next attempt uses others.
#[tokio::test(start_paused = true)]
async fn attach_fails_after_five_device_names_in_use() {
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

/// An attachment of another process counts when describes cannot be from before it.
#[tokio::test(start_paused = true)]
async fn own_attachment_counts_at_once() {
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

#[tokio::test(start_paused = true)]
async fn ended_attachment_in_a_stale_describe_is_not_reported() {
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

/// The attach time distinguishes them.
#[tokio::test(start_paused = true)]
async fn stale_earlier_attachment_is_not_the_new_one() {
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

#[tokio::test(start_paused = true)]
async fn attempt_after_a_lost_answer_describes_first() {
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

#[tokio::test(start_paused = true)]
async fn attachment_in_detach_is_not_reported() {
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
async fn attachment_detached_by_this_process_is_not_reported() {
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

#[tokio::test(start_paused = true)]
async fn two_processes_attach_at_one_node_without_conflicts() {
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

/// Describes must show it for certain. The next attempt uses another device name.
#[tokio::test(start_paused = true)]
async fn stuck_attachment_of_another_process_is_detached() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { attach_ms: Some(100_000_000), ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    attach_by_hand(&fixture, &volume.id, &node, "/dev/xvdaa").await;
    fixture.pass(100).await;
    let began = Instant::now();
    let error = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InProgress), "{error:?}");
    assert!((15..30).contains(&began.elapsed().as_secs()), "only a certain attachment: {:?}", began.elapsed());
    assert_eq!(fixture.accepted(Action::DetachVolume), 1);
    fixture.timing(TimingOverride { attach_ms: Some(0), ..TimingOverride::default() }).await;
    let fresh = fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    assert_eq!(fresh.device.as_str(), "/dev/xvdab");
}

#[tokio::test(start_paused = true)]
async fn volume_listed_at_two_nodes_is_an_error_with_both() {
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

/// EC2 may carry it out within 15 s.
#[tokio::test(start_paused = true)]
async fn attach_waits_for_an_unanswered_detach() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await.id;
    let [node, _] = fixture.nodes().await;
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.pass(16).await;
    fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.pass(16).await;
    // The orchestrator repeats the detach.
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

/// The DetachVolume of a stuck attachment got no answer, so EC2 may carry it out within 15 s, even after the volume is
/// attached.
#[tokio::test(start_paused = true)]
async fn stuck_attachment_is_not_reported_before_its_late_detach() {
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
    attached.expect("it is attached again");
    let attachments = fixture.volumes().await.remove(0).attachments;
    assert_eq!(attachments.iter().map(|a| a.state.as_str()).collect::<Vec<_>>(), ["attached"]);
}

/// The memory keeps an attachment for a day, so a new connection of the attacher causes no wait.
#[tokio::test(start_paused = true)]
async fn attachment_made_hours_ago_counts_at_once() {
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

/// EC2 accepted the first AttachVolume, which holds its name. The second one is refused and must not release it.
#[tokio::test(start_paused = true)]
async fn refused_attach_keeps_the_name_of_an_accepted_one() {
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

/// The cached description of the instance omits the detached volume.
#[tokio::test(start_paused = true)]
async fn name_of_a_detached_volume_is_free_at_once() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let volumes = [fixture.volume("a").await.id, fixture.volume("b").await.id, fixture.volume("c").await.id];
    let attach = async |n: usize| {
        fixture.cloud.attachments.attach(&volumes[n], &node, &fixture.waiters).await.expect("there is room").device
    };
    let first = attach(0).await;
    fixture.pass(60).await;
    // Describes the instance with the first volume.
    attach(1).await;
    fixture.cloud.attachments.detach(&volumes[0], &node, &fixture.waiters).await.unwrap();
    assert_eq!((attach(2).await, fixture.count(Action::DescribeInstances)), (first, 2));
}

use ebs_cloud::{CloudError, CloudErrorKind, VolumeSpec};
use ebs_ec2::{Action, AttachmentState, ErrorClass};
use ebs_sim::engine::TimingOverride;
use ebs_types::{InstanceId, IopsRequest, NodeId, VolumeId, VolumeType, Waiters};
use tokio::time::Instant;

use crate::fixture::{Fixture, in_zone, message_of, spec};

fn detach_ms(ms: u64) -> TimingOverride {
    TimingOverride { detach_ms: Some(ms), ..TimingOverride::default() }
}

/// A volume attached to the machine's own instance.
async fn attached(fixture: &Fixture) -> (VolumeId, NodeId) {
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.expect("the attachment is possible");
    (volume.id, node)
}

async fn attachments(fixture: &Fixture) -> usize {
    fixture.volumes().await.iter().map(|v| v.attachments.len()).sum()
}

/// Detached is reported only when EC2 lists no attachment to the node.
#[tokio::test(start_paused = true)]
async fn detached_means_that_ec2_lists_no_attachment() {
    let fixture = Fixture::new().await;
    fixture.timing(detach_ms(9_000)).await;
    let (volume, node) = attached(&fixture).await;
    let began = Instant::now();
    fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
    assert!(began.elapsed().as_secs() >= 9, "{:?}", began.elapsed());
    assert_eq!(attachments(&fixture).await, 0);
}

/// Detaching what is not attached, or whose volume or instance is gone, succeeds.
#[tokio::test(start_paused = true)]
async fn detaching_what_is_not_attached_or_gone_succeeds() {
    let fixture = Fixture::new().await;
    let (volume, node) = attached(&fixture).await;
    fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
    let [_, other] = fixture.nodes().await;
    fixture.cloud.attachments.detach(&volume, &other, &fixture.waiters).await.unwrap();
    fixture.cloud.volumes.delete(&volume, &fixture.waiters).await.unwrap();
    fixture.pass(60).await;
    fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
    let no_instance = NodeId::Instance(InstanceId::parse("i-0123456789abcdef0").unwrap());
    let second = fixture.volume("pvc-2").await;
    fixture.cloud.attachments.detach(&second.id, &no_instance, &fixture.waiters).await.unwrap();
}

/// Detaching from one node leaves the attachments to others alone, of a volume for several nodes too.
#[tokio::test(start_paused = true)]
async fn detaching_from_one_node_leaves_the_others_alone() {
    let fixture = Fixture::new().await;
    let (volume, _) = attached(&fixture).await;
    let [_, other] = fixture.nodes().await;
    fixture.cloud.attachments.detach(&volume, &other, &fixture.waiters).await.unwrap();
    assert_eq!(attachments(&fixture).await, 1);
    let shared = VolumeSpec {
        multi_attach: true,
        volume_type: VolumeType::Io2,
        iops: IopsRequest::explicit(100),
        ..in_zone(spec("pvc-shared"), "us-west-2a")
    };
    let shared = fixture.create(&shared).await.unwrap().id;
    let ([here, _], there) = (fixture.nodes().await, fixture.neighbour().await);
    for node in [&here, &there] {
        fixture.cloud.attachments.attach(&shared, node, &fixture.waiters).await.expect("io2 may be attached twice");
    }
    fixture.cloud.attachments.detach(&shared, &here, &fixture.waiters).await.unwrap();
    let left = fixture.cloud.volumes.get(&shared).await.unwrap().attachments;
    let left: Vec<_> = left.iter().map(|a| (a.instance.as_ref(), a.state.clone())).collect();
    assert_eq!(left, [(Some(there.instance()), AttachmentState::Attached)]);
}

/// A busy device is waited for, ends non-final with the time since when, and is never forced.
#[tokio::test(start_paused = true)]
async fn a_busy_device_is_never_reported_detached_and_never_forced() {
    let fixture = Fixture::new().await;
    fixture.timing(detach_ms(1_000_000_000)).await;
    let (volume, node) = attached(&fixture).await;
    fixture.ec2.override_volumes(|volumes| {
        volumes.iter_mut().flat_map(|v| &mut v.attachments).for_each(|a| {
            if a.state == AttachmentState::Detaching {
                a.state = AttachmentState::Busy;
            }
        });
    });
    let error = fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InProgress), "{error:?}");
    assert!(message_of(&error).contains("busy since 20"), "{}", message_of(&error));
    assert_eq!(fixture.count(Action::DetachVolume), 1);
    let again = fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap_err();
    assert!(matches!(again.kind, CloudErrorKind::InProgress), "{again:?}");
    assert_eq!(fixture.count(Action::DetachVolume), 1, "what is on its way is only waited for");
    let since = |error: &CloudError| message_of(error).split_once("busy since ").map(|(_, rest)| rest[..20].to_owned());
    assert_eq!(since(&again), since(&error), "since it is busy, not since it is asked");
}

/// A refusal of DetachVolume counts as detached only when looks show no attachment.
#[tokio::test(start_paused = true)]
async fn a_refusal_counts_as_detached_only_when_nothing_is_listed() {
    for class in [ErrorClass::IncorrectState, ErrorClass::AttachmentNotFound, ErrorClass::InstanceNotFound] {
        let fixture = Fixture::new().await;
        let (volume, node) = attached(&fixture).await;
        // One that speaks of what it does not know is asked again, for it may be an answer from before the attachment.
        let times = if class == ErrorClass::IncorrectState { 1 } else { 3 };
        for _ in 0..times {
            fixture.sim.fail_next(Action::DetachVolume, class, false);
        }
        let error = fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap_err();
        assert!(matches!(error.kind, CloudErrorKind::FailedPrecondition), "{class:?}: {error:?}");
        assert_eq!((attachments(&fixture).await, fixture.count(Action::DetachVolume)), (1, times));
    }
}

/// A detach that EC2 refuses for what it does not know yet is asked for again once looks show the attachment.
#[tokio::test(start_paused = true)]
async fn a_detach_that_ec2_refuses_for_what_it_does_not_know_yet_is_asked_for_again() {
    let fixture = Fixture::new().await;
    let (volume, node) = attached(&fixture).await;
    fixture.sim.fail_next(Action::DetachVolume, ErrorClass::AttachmentNotFound, false);
    fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.expect("EC2 knows the attachment by now");
    assert_eq!((attachments(&fixture).await, fixture.accepted(Action::DetachVolume)), (0, 1));
}

/// A detach whose reply was lost is seen, and one that did nothing is no success.
#[tokio::test(start_paused = true)]
async fn a_detach_whose_reply_was_lost_is_seen() {
    let fixture = Fixture::new().await;
    fixture.timing(detach_ms(3_000)).await;
    let (volume, node) = attached(&fixture).await;
    fixture.sim.fail_next(Action::DetachVolume, ErrorClass::Ambiguous, true);
    fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
    assert_eq!(fixture.count(Action::DetachVolume), 1);
    assert_eq!(attachments(&fixture).await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_unclear_detach_that_did_nothing_is_no_success() {
    let fixture = Fixture::new().await;
    let (volume, node) = attached(&fixture).await;
    fixture.sim.fail_next(Action::DetachVolume, ErrorClass::Ambiguous, false);
    let error = fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::OutcomeUnknown), "{error:?}");
    fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
}

/// An attachment that looks do not show yet is detached for real.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_describes_do_not_show_yet_is_detached_for_real() {
    let fixture = Fixture::new().await;
    fixture.timing(detach_ms(10_000)).await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    // The attach was abandoned before any describe showed it, and describes lag behind.
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let gate = fixture.sim.hold(Action::AttachVolume);
    fixture.ec2.override_volumes(|volumes| volumes.iter_mut().for_each(|v| v.attachments.clear()));
    let (ended, _successor) = tokio::join!(fixture.cloud.attachments.attach(&volume.id, &node, &waiters), async {
        gate.reached().await;
        drop(waiter);
        let successor = waiters.supersede();
        gate.release();
        successor
    });
    assert!(matches!(ended, Err(CloudError { kind: CloudErrorKind::Abandoned, .. })), "{ended:?}");
    let began = Instant::now();
    fixture.ec2.override_volumes(move |volumes| {
        if began.elapsed().as_secs() < 14 {
            volumes.iter_mut().for_each(|v| v.attachments.clear());
        }
    });
    fixture.cloud.attachments.detach(&volume.id, &node, &fixture.waiters).await.unwrap();
    assert_eq!(attachments(&fixture).await, 0, "reported detached after {:?}", began.elapsed());
}

/// Looks that fail after DetachVolume do not end the wait.
#[tokio::test(start_paused = true)]
async fn lost_describes_do_not_end_a_detach() {
    let fixture = Fixture::new().await;
    fixture.timing(detach_ms(5_000)).await;
    let (volume, node) = attached(&fixture).await;
    let gate = fixture.sim.hold(Action::DetachVolume);
    let (ended, ()) = tokio::join!(fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters), async {
        gate.reached().await;
        for class in [ErrorClass::NotSent, ErrorClass::Throttled, ErrorClass::Ambiguous] {
            fixture.sim.fail_next(Action::DescribeVolumes, class, false);
        }
        gate.release();
    });
    ended.unwrap();
    assert_eq!(attachments(&fixture).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_detach_that_nobody_waits_for_starts_nothing() {
    let fixture = Fixture::new().await;
    let (volume, node) = attached(&fixture).await;
    let error = fixture.cloud.attachments.detach(&volume, &node, &Waiters::default()).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Abandoned), "{error:?}");
    assert_eq!(fixture.count(Action::DetachVolume), 0);
}

/// After a detach the device name is free again, and a volume that starts anew gives its old one back.
#[tokio::test(start_paused = true)]
async fn a_name_is_free_again_after_the_detach() {
    let fixture = Fixture::new().await;
    let (volume, node) = attached(&fixture).await;
    fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
    let next = fixture.volume("pvc-2").await;
    let attached = fixture.cloud.attachments.attach(&next.id, &node, &fixture.waiters).await.unwrap();
    assert_eq!(attached.device.as_str(), "/dev/xvdaa");
}

/// An unreachable EC2 or refused credentials are told at once when nothing was started.
#[tokio::test(start_paused = true)]
async fn an_unreachable_ec2_or_a_refused_describe_is_told_at_once_and_starts_nothing() {
    let fixture = Fixture::new().await;
    let (volume, node) = attached(&fixture).await;
    for (class, kind) in [
        (ErrorClass::NotSent, CloudErrorKind::Unavailable),
        (ErrorClass::Unauthenticated, CloudErrorKind::Unauthenticated),
        (ErrorClass::Unauthorized, CloudErrorKind::Unauthorized),
    ] {
        fixture.sim.fail_next(Action::DetachVolume, class, false);
        let began = Instant::now();
        let error = fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(began.elapsed().as_secs() < 2);
    }
    assert_eq!(fixture.accepted(Action::DetachVolume), 0);
}

use ebs_cloud::{CloudError, CloudErrorKind, VolumeSpec};
use ebs_ec2::{Action, AttachmentState, ErrorClass, InstanceId, IopsRequest, NodeId, VolumeId, VolumeType};
use ebs_sim::engine::TimingOverride;
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, assert_mentions, in_zone, message_of, spec};

fn detach_ms(ms: u64) -> TimingOverride {
    TimingOverride { detach_ms: Some(ms), ..TimingOverride::default() }
}

async fn attached(fixture: &Fixture) -> (VolumeId, NodeId) {
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    fixture.attach(&volume.id, &node).await.expect("the attachment is possible");
    (volume.id, node)
}

async fn attachments(fixture: &Fixture) -> usize {
    fixture.volumes().await.iter().map(|v| v.attachments.len()).sum()
}

#[tokio::test(start_paused = true)]
async fn detach_of_an_unattached_or_missing_volume_succeeds() {
    let fixture = Fixture::new().await;
    let (volume, node) = attached(&fixture).await;
    fixture.detach(&volume, &node).await.unwrap();
    fixture.detach(&volume, &node).await.unwrap();
    let [_, other] = fixture.nodes().await;
    fixture.detach(&volume, &other).await.unwrap();
    fixture.delete(&volume).await.unwrap();
    fixture.pass(60).await;
    fixture.detach(&volume, &node).await.unwrap();
    let no_instance = NodeId::Instance(InstanceId::parse("i-0123456789abcdef0").unwrap());
    let second = fixture.volume("pvc-2").await;
    fixture.detach(&second.id, &no_instance).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn detach_from_one_node_keeps_the_other_attachments() {
    let fixture = Fixture::new().await;
    let (volume, _) = attached(&fixture).await;
    let [_, other] = fixture.nodes().await;
    fixture.detach(&volume, &other).await.unwrap();
    assert_eq!(attachments(&fixture).await, 1);
    let shared = VolumeSpec {
        multi_attach: true,
        volume_type: VolumeType::Io2,
        iops: IopsRequest::explicit(100),
        ..in_zone(spec("pvc-shared"), "us-west-2a")
    };
    let shared = fixture.create(&shared).await.unwrap().id;
    let ([here, _], there) = (fixture.nodes().await, fixture.neighbour().await);
    for (node, attachments) in [(&here, 1), (&there, 2)] {
        let attached = fixture.attach(&shared, node).await.expect("io2 may be attached twice");
        assert_eq!(attached.volume.attachments.len(), attachments);
    }
    fixture.detach(&shared, &here).await.unwrap();
    let left = fixture.cloud.volumes.get(&shared).await.unwrap().attachments;
    let left: Vec<_> = left.iter().map(|a| (a.instance.as_ref(), a.state.clone())).collect();
    assert_eq!(left, [(Some(there.instance()), AttachmentState::Attached)]);
}

/// The error is not final and reports since when the device has been busy.
#[tokio::test(start_paused = true)]
async fn busy_device_is_never_reported_detached_or_force_detached() {
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
    let error = assert_error(fixture.detach(&volume, &node).await, CloudErrorKind::InProgress);
    assert_mentions(&error, &["busy since 20"]);
    assert_eq!(fixture.count(Action::DetachVolume), 1);
    let again = assert_error(fixture.detach(&volume, &node).await, CloudErrorKind::InProgress);
    assert_eq!(fixture.count(Action::DetachVolume), 1, "what is on its way is only waited for");
    let since = |error: &CloudError| message_of(error).split_once("busy since ").map(|(_, rest)| rest[..20].to_owned());
    assert_eq!(since(&again), since(&error), "since it is busy, not since it is asked");
}

#[tokio::test(start_paused = true)]
async fn refused_detach_fails_while_the_attachment_is_listed() {
    for class in [ErrorClass::IncorrectState, ErrorClass::AttachmentNotFound, ErrorClass::InstanceNotFound] {
        let fixture = Fixture::new().await;
        let (volume, node) = attached(&fixture).await;
        // "Not found" may be a stale answer from before the attachment, so the driver repeats the detach.
        let times = if class == ErrorClass::IncorrectState { 1 } else { 3 };
        for _ in 0..times {
            fixture.sim.fail_next(Action::DetachVolume, class, false);
        }
        assert_error(fixture.detach(&volume, &node).await, CloudErrorKind::FailedPrecondition);
        assert_eq!((attachments(&fixture).await, fixture.count(Action::DetachVolume)), (1, times));
    }
}

#[tokio::test(start_paused = true)]
async fn executed_detach_is_found_after_its_reply_is_lost() {
    let fixture = Fixture::new().await;
    fixture.timing(detach_ms(3_000)).await;
    let (volume, node) = attached(&fixture).await;
    fixture.sim.fail_next(Action::DetachVolume, ErrorClass::Ambiguous, true);
    fixture.detach(&volume, &node).await.unwrap();
    assert_eq!(fixture.count(Action::DetachVolume), 1);
    assert_eq!(attachments(&fixture).await, 0);
}

#[tokio::test(start_paused = true)]
async fn lost_detach_call_is_not_reported_as_success() {
    let fixture = Fixture::new().await;
    let (volume, node) = attached(&fixture).await;
    fixture.sim.fail_next(Action::DetachVolume, ErrorClass::Ambiguous, false);
    assert_error(fixture.detach(&volume, &node).await, CloudErrorKind::OutcomeUnknown);
    fixture.detach(&volume, &node).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn attachment_that_is_not_listed_yet_is_detached() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.timing(detach_ms(10_000)).await;
    // The client gave up on the attach before a DescribeVolumes reply showed the attachment, and replies are still
    // stale.
    fixture.ec2.override_volumes(|volumes| volumes.iter_mut().for_each(|v| v.attachments.clear()));
    fixture.abandon_attach(&volume, &node).await;
    let began = Instant::now();
    fixture.ec2.override_volumes(move |volumes| {
        if began.elapsed().as_secs() < 14 {
            volumes.iter_mut().for_each(|v| v.attachments.clear());
        }
    });
    fixture.detach(&volume, &node).await.unwrap();
    assert_eq!(attachments(&fixture).await, 0, "reported detached after {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn detach_fails_at_once_if_ec2_is_unreachable_or_denies_it() {
    let fixture = Fixture::new().await;
    let (volume, node) = attached(&fixture).await;
    for (class, kind) in [
        (ErrorClass::NotSent, CloudErrorKind::Unavailable),
        (ErrorClass::Unauthenticated, CloudErrorKind::Unauthenticated),
        (ErrorClass::Unauthorized, CloudErrorKind::Unauthorized),
    ] {
        fixture.sim.fail_next(Action::DetachVolume, class, false);
        let began = Instant::now();
        assert_error(fixture.detach(&volume, &node).await, kind);
        assert!(began.elapsed().as_secs() < 2);
    }
    assert_eq!(fixture.accepted(Action::DetachVolume), 0);
}

use ebs_cloud::{CloudError, CloudErrorKind, Object, VolumeSpec};
use ebs_ec2::{Action, ErrorClass, ModificationState};
use ebs_sim::api::Call;
use ebs_sim::engine::{EngineConfig, Timing, TimingOverride};
use ebs_types::{Gib, IopsRequest, VolumeId, VolumeType, Waiters};
use tokio::time::Instant;

use crate::fixture::{Fixture, in_zone, message_of, spec};

fn modify_ms(modify: u64, optimize: u64) -> TimingOverride {
    TimingOverride { modify_ms: Some(modify), optimize_ms: Some(optimize), ..TimingOverride::default() }
}

/// An expansion ends when its modification is past `modifying`.
#[tokio::test(start_paused = true)]
async fn an_expanded_volume_has_its_size_once_the_modification_is_past_modifying() {
    let fixture = Fixture::new().await;
    fixture.serve_alone().await;
    fixture.timing(modify_ms(9_000, 3_600_000)).await;
    let volume = fixture.volume("pvc-1").await;
    let began = Instant::now();
    assert_eq!(fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap(), Gib(10));
    assert!((9..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

/// A modification in a state that this version does not know holds up an expansion for 15 s, not until its bound: then EC2
/// judges. One that EC2 has taken and shows so is not reported done.
#[tokio::test(start_paused = true)]
async fn a_modification_in_a_state_of_a_later_ec2_holds_up_nobody_for_long() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.ec2.override_modifications(|found| {
        found.iter_mut().for_each(|m| m.state = ModificationState::Other("queued".to_owned()));
    });
    fixture.timing(modify_ms(1_000, 0)).await;
    let began = Instant::now();
    let error = fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InProgress) && error.message.contains("queued"), "{error:?}");
    assert!((15..40).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    let began = Instant::now();
    assert_eq!(fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap(), Gib(10));
    assert!(began.elapsed().as_secs() < 25, "{:?}", began.elapsed());
    assert_eq!(fixture.accepted(Action::ModifyVolume), 1);
}

/// A size that the volume has is a success with its real size and no modification.
#[tokio::test(start_paused = true)]
async fn a_size_that_the_volume_has_already_is_no_modification() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    for size in [Gib(1), Gib(4)] {
        assert_eq!(fixture.cloud.volumes.expand(&volume.id, size, &fixture.waiters).await.unwrap(), Gib(4));
    }
    assert_eq!(fixture.count(Action::ModifyVolume), 0);
}

/// The target size that EC2 shows during a modification is not taken for the size.
#[tokio::test(start_paused = true)]
async fn the_target_of_a_running_modification_is_not_the_size_yet() {
    let fixture = Fixture::new().await;
    fixture.timing(modify_ms(30_000, 60_000)).await;
    let volume = fixture.volume("pvc-1").await;
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let gate = fixture.sim.hold(Action::ModifyVolume);
    let (ended, _successor) = tokio::join!(fixture.cloud.volumes.expand(&volume.id, Gib(10), &waiters), async {
        gate.reached().await;
        drop(waiter);
        let successor = waiters.supersede();
        gate.release();
        successor
    });
    assert!(matches!(ended, Err(CloudError { kind: CloudErrorKind::Abandoned, .. })), "{ended:?}");
    let began = Instant::now();
    assert_eq!(fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap(), Gib(10));
    assert!(began.elapsed().as_secs() >= 25, "waited only {:?}", began.elapsed());
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
}

/// A missing volume is named when it is to grow.
#[tokio::test(start_paused = true)]
async fn a_missing_volume_is_named() {
    let fixture = Fixture::new().await;
    let missing = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    match fixture.cloud.volumes.expand(&missing, Gib(10), &fixture.waiters).await.unwrap_err() {
        CloudError { kind: CloudErrorKind::NotFound(object), .. } => assert_eq!(object, Object::Volume(missing)),
        other => panic!("{other:?}"),
    }
}

/// A refusal for the modification limits is FailedPrecondition, says when, and is never polled.
#[tokio::test(start_paused = true)]
async fn a_refusal_for_the_modification_limits_says_when_it_is_possible_again() {
    let fixture = Fixture::with(EngineConfig { timing: Timing::Realistic, ..EngineConfig::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    fixture.cloud.volumes.expand(&volume.id, Gib(5), &fixture.waiters).await.unwrap();
    let optimizing = fixture.cloud.volumes.expand(&volume.id, Gib(6), &fixture.waiters).await.unwrap_err();
    assert!(matches!(optimizing.kind, CloudErrorKind::FailedPrecondition), "{optimizing:?}");
    assert!(message_of(&optimizing).contains("still being optimized"), "{}", message_of(&optimizing));
    for gib in 6..9 {
        fixture.pass(120).await;
        fixture.cloud.volumes.expand(&volume.id, Gib(gib), &fixture.waiters).await.unwrap();
    }
    fixture.pass(120).await;
    let modifications = fixture.count(Action::ModifyVolume);
    let fifth = fixture.cloud.volumes.expand(&volume.id, Gib(20), &fixture.waiters).await.unwrap_err();
    assert!(matches!(fifth.kind, CloudErrorKind::FailedPrecondition), "{fifth:?}");
    assert!(message_of(&fifth).contains("possible again at 20"), "{}", message_of(&fifth));
    assert_eq!(fixture.count(Action::ModifyVolume), modifications + 1, "a refusal for the rate is never repeated");
}

/// A modification of unclear outcome is followed and not repeated.
#[tokio::test(start_paused = true)]
async fn a_modification_whose_reply_was_lost_is_followed_and_not_repeated() {
    let fixture = Fixture::new().await;
    fixture.timing(modify_ms(5_000, 60_000)).await;
    let volume = fixture.volume("pvc-1").await;
    fixture.sim.fail_next(Action::ModifyVolume, ErrorClass::Ambiguous, true);
    assert_eq!(fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap(), Gib(10));
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
    fixture.pass(120).await;
    fixture.sim.fail_next(Action::ModifyVolume, ErrorClass::Ambiguous, false);
    let error = fixture.cloud.volumes.expand(&volume.id, Gib(20), &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::OutcomeUnknown), "{error:?}");
    assert_eq!(fixture.cloud.volumes.expand(&volume.id, Gib(20), &fixture.waiters).await.unwrap(), Gib(20));
}

/// Expanding keeps the meaning of EC2's refusals; a size that the type does not have is OutOfRange.
#[tokio::test(start_paused = true)]
async fn what_ec2_refuses_for_good_keeps_its_meaning() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let error = fixture.cloud.volumes.expand(&volume.id, Gib(1_000_000), &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::OutOfRange), "{error:?}");
    assert!(error.message.contains("required_bytes comes to 1000000 GiB"), "{error}");
    let limit = ErrorClass::LimitExceeded(ebs_ec2::Limit::ModificationSize);
    fixture.sim.fail_next(Action::ModifyVolume, limit, false);
    let error = fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::LimitExceeded), "{error:?}");
}

fn with_iops_tags(ratio: &str, increase: &str) -> VolumeSpec {
    let mut spec = in_zone(spec("pvc-1"), "us-west-2a");
    spec.volume_type = VolumeType::Io2;
    spec.iops = IopsRequest::explicit(100);
    spec.tags.insert("ebs.csi.aws.com/IOPSPerGb".into(), ratio.into());
    spec.tags.insert("ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify".into(), increase.into());
    spec
}

/// The IOPS of the only ModifyVolume request so far.
fn asked_iops(fixture: &Fixture) -> Option<i64> {
    let calls = fixture.sim.calls().into_iter();
    let mut requests =
        calls.filter_map(|c| if let Call::ModifyVolume(request) = c.request { Some(request) } else { None });
    requests.next().and_then(|r| r.iops)
}

/// Expanding raises IOPS by the volume's own ratio tag when its other tag allows it.
#[tokio::test(start_paused = true)]
async fn the_tags_of_a_volume_raise_its_iops_with_its_size() {
    for (increase, wanted) in [("true", Some(500)), ("1", Some(500)), ("T", Some(500)), ("false", None)] {
        let fixture = Fixture::new().await;
        let volume = fixture.create(&with_iops_tags("50", increase)).await.unwrap();
        fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap();
        assert_eq!(asked_iops(&fixture), wanted, "{increase}");
    }
}

/// Bad IOPS tags are passed over with a warning.
#[tokio::test(start_paused = true)]
async fn bad_iops_tags_do_not_keep_a_volume_from_growing() {
    for (ratio, increase) in [("many", "true"), ("-5", "true"), ("50", "yes")] {
        let fixture = Fixture::new().await;
        let volume = fixture.create(&with_iops_tags(ratio, increase)).await.unwrap();
        assert_eq!(fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap(), Gib(10));
        assert_eq!(asked_iops(&fixture), None, "{ratio} {increase}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expansion_that_nobody_waits_for_starts_nothing() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let error = fixture.cloud.volumes.expand(&volume.id, Gib(10), &Waiters::default()).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Abandoned), "{error:?}");
    assert_eq!(fixture.count(Action::ModifyVolume), 0);
}

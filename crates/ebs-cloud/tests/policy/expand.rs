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

#[tokio::test(start_paused = true)]
async fn expansion_ends_when_the_modification_is_past_modifying() {
    let fixture = Fixture::new().await;
    fixture.serve_alone().await;
    fixture.timing(modify_ms(9_000, 3_600_000)).await;
    let volume = fixture.volume("pvc-1").await;
    let began = Instant::now();
    assert_eq!(fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap(), Gib(10));
    assert!((9..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

/// The wait is 15 s, not until the deadline. After that EC2 decides. A modification that EC2 accepted and shows in this
/// state is not reported done.
#[tokio::test(start_paused = true)]
async fn unknown_modification_state_delays_by_at_most_15_s() {
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

/// The result is the real size.
#[tokio::test(start_paused = true)]
async fn smaller_or_equal_size_is_not_a_modification() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    for size in [Gib(1), Gib(4)] {
        assert_eq!(fixture.cloud.volumes.expand(&volume.id, size, &fixture.waiters).await.unwrap(), Gib(4));
    }
    assert_eq!(fixture.count(Action::ModifyVolume), 0);
}

#[tokio::test(start_paused = true)]
async fn target_of_a_running_modification_is_not_the_size() {
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

#[tokio::test(start_paused = true)]
async fn missing_volume_is_named() {
    let fixture = Fixture::new().await;
    let missing = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    match fixture.cloud.volumes.expand(&missing, Gib(10), &fixture.waiters).await.unwrap_err() {
        CloudError { kind: CloudErrorKind::NotFound(object), .. } => assert_eq!(object, Object::Volume(missing)),
        other => panic!("{other:?}"),
    }
}

/// The error is FailedPrecondition, and the call is never repeated.
#[tokio::test(start_paused = true)]
async fn modification_limit_error_has_the_next_possible_time() {
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
    assert!(message_of(&fifth).contains("try again at 20"), "{}", message_of(&fifth));
    assert_eq!(fixture.count(Action::ModifyVolume), modifications + 1, "a refusal for the rate is never repeated");
}

#[tokio::test(start_paused = true)]
async fn modification_with_a_lost_reply_is_not_repeated() {
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

/// An unsupported size is OutOfRange.
#[tokio::test(start_paused = true)]
async fn expansion_errors_keep_their_meaning() {
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

/// Returns the IOPS of the only ModifyVolume request so far.
fn asked_iops(fixture: &Fixture) -> Option<i64> {
    let calls = fixture.sim.calls().into_iter();
    let mut requests =
        calls.filter_map(|c| if let Call::ModifyVolume(request) = c.request { Some(request) } else { None });
    requests.next().and_then(|r| r.iops)
}

/// The second tag must allow it.
#[tokio::test(start_paused = true)]
async fn volume_tags_raise_iops_with_the_size() {
    for (increase, wanted) in [("true", Some(500)), ("1", Some(500)), ("T", Some(500)), ("false", None)] {
        let fixture = Fixture::new().await;
        let volume = fixture.create(&with_iops_tags("50", increase)).await.unwrap();
        fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap();
        assert_eq!(asked_iops(&fixture), wanted, "{increase}");
    }
}

/// The driver logs a warning.
#[tokio::test(start_paused = true)]
async fn invalid_iops_tags_do_not_prevent_growth() {
    for (ratio, increase) in [("many", "true"), ("-5", "true"), ("50", "yes")] {
        let fixture = Fixture::new().await;
        let volume = fixture.create(&with_iops_tags(ratio, increase)).await.unwrap();
        assert_eq!(fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap(), Gib(10));
        assert_eq!(asked_iops(&fixture), None, "{ratio} {increase}");
    }
}

#[tokio::test(start_paused = true)]
async fn expansion_without_waiters_starts_nothing() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let error = fixture.cloud.volumes.expand(&volume.id, Gib(10), &Waiters::default()).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Abandoned), "{error:?}");
    assert_eq!(fixture.count(Action::ModifyVolume), 0);
}

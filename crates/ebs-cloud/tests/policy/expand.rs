use ebs_cloud::{CloudErrorKind, Object};
use ebs_ec2::{Action, ErrorClass, Gib, ModificationState, VolumeId};
use ebs_sim::engine::{EngineConfig, Timing, TimingOverride};
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, assert_mentions, expand};

fn modify_ms(modify: u64, optimize: u64) -> TimingOverride {
    TimingOverride { modify_ms: Some(modify), optimize_ms: Some(optimize), ..TimingOverride::default() }
}

#[tokio::test(start_paused = true)]
async fn expansion_ends_when_the_modification_is_past_modifying() {
    let fixture = Fixture::new().await;
    fixture.serve_alone().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.timing(modify_ms(9_000, 3_600_000)).await;
    let began = Instant::now();
    assert_eq!(fixture.expand(&volume.id, Gib(10)).await.unwrap(), Gib(10));
    assert!((9..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

/// The wait is 15 s, not until the deadline. After that EC2 decides. A modification that EC2 accepted and shows in this
/// state is not reported done.
#[tokio::test(start_paused = true)]
async fn unknown_modification_state_delays_by_at_most_15_s() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.ec2.override_modifications(|found| {
        found.iter_mut().for_each(|m| m.state = ModificationState::Other("queued".to_owned()));
    });
    fixture.timing(modify_ms(1_000, 0)).await;
    let began = Instant::now();
    let error = fixture.expand(&volume, Gib(10)).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InProgress) && error.message.contains("queued"), "{error:?}");
    assert!((15..40).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    let began = Instant::now();
    assert_eq!(fixture.expand(&volume, Gib(10)).await.unwrap(), Gib(10));
    assert!(began.elapsed().as_secs() < 25, "{:?}", began.elapsed());
    assert_eq!(fixture.accepted(Action::ModifyVolume), 1);
}

/// The result is the real size.
#[tokio::test(start_paused = true)]
async fn smaller_or_equal_size_is_not_a_modification() {
    let (fixture, volume) = Fixture::with_volume().await;
    for size in [Gib(1), Gib(4)] {
        assert_eq!(fixture.expand(&volume, size).await.unwrap(), Gib(4));
    }
    assert_eq!(fixture.count(Action::ModifyVolume), 0);
}

#[tokio::test(start_paused = true)]
async fn target_of_a_running_modification_is_not_the_size() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.timing(modify_ms(30_000, 60_000)).await;
    fixture
        .supersede(Action::ModifyVolume, async |waiters| {
            expand(&fixture.cloud, &volume, Gib(10), waiters).await.map(drop)
        })
        .await;
    let began = Instant::now();
    assert_eq!(fixture.expand(&volume, Gib(10)).await.unwrap(), Gib(10));
    assert!(began.elapsed().as_secs() >= 25, "waited only {:?}", began.elapsed());
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn missing_volume_is_named() {
    let fixture = Fixture::new().await;
    let missing = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    assert_error(fixture.expand(&missing, Gib(10)).await, CloudErrorKind::NotFound(Object::Volume(missing)));
}

/// The error is FailedPrecondition, and the call is never repeated.
#[tokio::test(start_paused = true)]
async fn modification_limit_error_has_the_next_possible_time() {
    let fixture = Fixture::with(EngineConfig { timing: Timing::Realistic, ..EngineConfig::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    fixture.expand(&volume.id, Gib(5)).await.unwrap();
    let optimizing = assert_error(fixture.expand(&volume.id, Gib(6)).await, CloudErrorKind::FailedPrecondition);
    assert_mentions(&optimizing, &["still being optimized"]);
    for gib in 6..9 {
        fixture.pass(120).await;
        fixture.expand(&volume.id, Gib(gib)).await.unwrap();
    }
    fixture.pass(120).await;
    let modifications = fixture.count(Action::ModifyVolume);
    let fifth = assert_error(fixture.expand(&volume.id, Gib(20)).await, CloudErrorKind::FailedPrecondition);
    assert_mentions(&fifth, &["try again at 20"]);
    assert_eq!(fixture.count(Action::ModifyVolume), modifications + 1, "a refusal for the rate is never repeated");
}

#[tokio::test(start_paused = true)]
async fn modification_with_a_lost_reply_is_not_repeated() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.timing(modify_ms(5_000, 60_000)).await;
    fixture.sim.fail_next(Action::ModifyVolume, ErrorClass::Ambiguous, true);
    assert_eq!(fixture.expand(&volume, Gib(10)).await.unwrap(), Gib(10));
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
    fixture.pass(120).await;
    fixture.sim.fail_next(Action::ModifyVolume, ErrorClass::Ambiguous, false);
    assert_error(fixture.expand(&volume, Gib(20)).await, CloudErrorKind::OutcomeUnknown);
    assert_eq!(fixture.expand(&volume, Gib(20)).await.unwrap(), Gib(20));
}

/// An unsupported size is OutOfRange.
#[tokio::test(start_paused = true)]
async fn expansion_errors_keep_their_meaning() {
    let (fixture, volume) = Fixture::with_volume().await;
    let error = assert_error(fixture.expand(&volume, Gib(1_000_000)).await, CloudErrorKind::OutOfRange);
    assert!(error.message.contains("required_bytes comes to 1000000 GiB"), "{error}");
    let limit = ErrorClass::LimitExceeded(ebs_ec2::Limit::ModificationSize);
    fixture.sim.fail_next(Action::ModifyVolume, limit, false);
    assert_error(fixture.expand(&volume, Gib(10)).await, CloudErrorKind::LimitExceeded);
}

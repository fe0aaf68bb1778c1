//! Waiting until a volume from a snapshot is initialised.

use std::time::Duration;

use ebs_cloud::{CloudError, CloudErrorKind, Object};
use ebs_ec2::{Action, ErrorClass};
use ebs_types::{VolumeId, Waiters};
use tokio::time::Instant;

use crate::fixture::{Fixture, message_of};

/// For so long from now every volume is initialising, and EC2 estimates the rest if it is to.
fn initializing(fixture: &Fixture, time: Duration, with_estimate: bool) {
    let end = Instant::now() + time;
    fixture.ec2.override_statuses(move |statuses| {
        let left = end.saturating_duration_since(Instant::now());
        for status in statuses {
            let word = if left.is_zero() { "completed" } else { "initializing" };
            status.details = Some(vec![("initialization-state".to_owned(), word.to_owned())]);
            status.estimate = Some(left).filter(|_| with_estimate && !left.is_zero());
        }
    });
}

/// A volume that is initialised is asked about once in 6 h.
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_initialised_is_asked_about_once() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    for _ in 0..3 {
        fixture.cloud.volumes.await_initialized(&volume.id, &fixture.waiters).await.unwrap();
    }
    assert_eq!(fixture.count(Action::DescribeVolumeStatus), 1);
    fixture.pass(6 * 3600 + 1).await;
    fixture.cloud.volumes.await_initialized(&volume.id, &fixture.waiters).await.unwrap();
    assert_eq!(fixture.count(Action::DescribeVolumeStatus), 2, "the answer is kept for 6 h");
}

/// With an estimate EC2 is asked again at the estimated end, at least a minute later; the error says when.
#[tokio::test(start_paused = true)]
async fn with_an_estimate_ec2_is_asked_again_only_then_and_not_within_a_minute() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    for (seconds, waited) in [(100, 100), (7, 60)] {
        let fixture = Fixture::new().await;
        let volume = fixture.volume("pvc-1").await;
        initializing(&fixture, Duration::from_secs(seconds), true);
        let began = Instant::now();
        fixture.cloud.volumes.await_initialized(&volume.id, &fixture.waiters).await.unwrap();
        assert!((waited..waited + 10).contains(&began.elapsed().as_secs()), "{seconds}: {:?}", began.elapsed());
        assert_eq!(fixture.count(Action::DescribeVolumeStatus), 2);
    }
    initializing(&fixture, Duration::from_secs(1000), true);
    let error = fixture.cloud.volumes.await_initialized(&volume.id, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InProgress), "{error:?}");
    assert!(message_of(&error).contains("expects the end about 20"), "{}", message_of(&error));
    fixture.cloud.volumes.await_initialized(&volume.id, &fixture.waiters).await.unwrap_err();
    assert_eq!(fixture.count(Action::DescribeVolumeStatus), 1, "the next attempt asks no earlier");
}

/// Without an estimate EC2 is asked every two minutes.
#[tokio::test(start_paused = true)]
async fn without_an_estimate_ec2_is_asked_every_two_minutes() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    initializing(&fixture, Duration::from_secs(130), false);
    let error = fixture.cloud.volumes.await_initialized(&volume.id, &fixture.waiters).await.unwrap_err();
    assert!(message_of(&error).contains("no estimate"), "{}", message_of(&error));
    assert_eq!(fixture.count(Action::DescribeVolumeStatus), 2);
    fixture.cloud.volumes.await_initialized(&volume.id, &fixture.waiters).await.unwrap();
}

/// A status without details is an error and no end of the process; a missing volume is NotFound for its own request.
#[tokio::test(start_paused = true)]
async fn a_status_that_says_nothing_is_an_error_and_a_missing_volume_is_named() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.ec2.override_statuses(|statuses| statuses.iter_mut().for_each(|s| s.details = None));
    let error = fixture.cloud.volumes.await_initialized(&volume.id, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Unavailable), "{error:?}");
    let missing = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    match fixture.cloud.volumes.await_initialized(&missing, &fixture.waiters).await.unwrap_err() {
        CloudError { kind: CloudErrorKind::NotFound(object), .. } => assert_eq!(object, Object::Volume(missing)),
        other => panic!("{other:?}"),
    }
    fixture.sim.fail_next(Action::DescribeVolumeStatus, ErrorClass::Unauthorized, false);
    let error = fixture.cloud.volumes.await_initialized(&volume.id, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Unauthorized), "{error:?}");
}

/// The wait for initialization ends soon after its last waiter has left.
#[tokio::test(start_paused = true)]
async fn the_wait_for_initialisation_ends_soon_after_its_last_waiter_has_left() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    initializing(&fixture, Duration::from_secs(1000), true);
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let began = Instant::now();
    let (ended, ()) = tokio::join!(fixture.cloud.volumes.await_initialized(&volume.id, &waiters), async {
        tokio::task::yield_now().await;
        drop(waiter);
    });
    assert!(matches!(ended, Err(CloudError { kind: CloudErrorKind::Abandoned, .. })), "{ended:?}");
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
}

/// An estimate beyond every calendar is no reason to fail: the volume is asked about again in time.
#[tokio::test(start_paused = true)]
async fn an_absurd_estimate_is_waited_for_like_a_long_one() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.ec2.override_statuses(|statuses| {
        for status in statuses {
            status.details = Some(vec![("initialization-state".to_owned(), "initializing".to_owned())]);
            status.estimate = Some(Duration::from_secs(u64::MAX));
        }
    });
    let error = fixture.cloud.volumes.await_initialized(&volume.id, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InProgress), "{error:?}");
    fixture.ec2.override_statuses(|statuses| statuses.iter_mut().for_each(|status| status.details = Some(Vec::new())));
    fixture.pass(6 * 3600 + 1).await;
    fixture.cloud.volumes.await_initialized(&volume.id, &fixture.waiters).await.unwrap();
}

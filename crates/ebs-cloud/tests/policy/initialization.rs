//! The wait until a volume from a snapshot is initialized.

use std::time::Duration;

use ebs_cloud::{CloudError, CloudErrorKind, Object};
use ebs_ec2::{Action, ErrorClass, VolumeId, Waiters};
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, assert_mentions};

/// Makes EC2 show every volume as initializing for `time` from now, with an estimate if requested.
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

#[tokio::test(start_paused = true)]
async fn initialized_volume_is_described_once_in_6_h() {
    let (fixture, volume) = Fixture::with_volume().await;
    for _ in 0..3 {
        fixture.await_initialized(&volume).await.unwrap();
    }
    assert_eq!(fixture.count(Action::DescribeVolumeStatus), 1);
    fixture.pass(6 * 3600 + 1).await;
    fixture.await_initialized(&volume).await.unwrap();
    assert_eq!(fixture.count(Action::DescribeVolumeStatus), 2, "the answer is kept for 6 h");
}

#[tokio::test(start_paused = true)]
async fn initialization_estimate_determines_the_next_describe() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    for (seconds, waited) in [(100, 100), (7, 60)] {
        let fixture = Fixture::new().await;
        let volume = fixture.volume("pvc-1").await;
        initializing(&fixture, Duration::from_secs(seconds), true);
        let began = Instant::now();
        fixture.await_initialized(&volume.id).await.unwrap();
        assert!((waited..waited + 10).contains(&began.elapsed().as_secs()), "{seconds}: {:?}", began.elapsed());
        assert_eq!(fixture.count(Action::DescribeVolumeStatus), 2);
    }
    initializing(&fixture, Duration::from_secs(1000), true);
    let error = assert_error(fixture.await_initialized(&volume.id).await, CloudErrorKind::InProgress);
    assert_mentions(&error, &["expects completion at about 20"]);
    fixture.await_initialized(&volume.id).await.unwrap_err();
    assert_eq!(fixture.count(Action::DescribeVolumeStatus), 1, "the next attempt asks no earlier");
}

#[tokio::test(start_paused = true)]
async fn initialization_is_polled_every_2_min_without_estimate() {
    let (fixture, volume) = Fixture::with_volume().await;
    initializing(&fixture, Duration::from_secs(130), false);
    let error = fixture.await_initialized(&volume).await.unwrap_err();
    assert_mentions(&error, &["no estimate"]);
    assert_eq!(fixture.count(Action::DescribeVolumeStatus), 2);
    fixture.await_initialized(&volume).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn volume_status_without_details_is_an_error() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.ec2.override_statuses(|statuses| statuses.iter_mut().for_each(|s| s.details = None));
    assert_error(fixture.await_initialized(&volume).await, CloudErrorKind::Unavailable);
    let missing = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    assert_error(fixture.await_initialized(&missing).await, CloudErrorKind::NotFound(Object::Volume(missing)));
    fixture.sim.fail_next(Action::DescribeVolumeStatus, ErrorClass::Unauthorized, false);
    assert_error(fixture.await_initialized(&volume).await, CloudErrorKind::Unauthorized);
}

#[tokio::test(start_paused = true)]
async fn initialization_wait_ends_soon_after_last_waiter_leaves() {
    let (fixture, volume) = Fixture::with_volume().await;
    initializing(&fixture, Duration::from_secs(1000), true);
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let began = Instant::now();
    let (ended, ()) = tokio::join!(fixture.cloud.volumes.await_initialized(&volume, &waiters), async {
        tokio::task::yield_now().await;
        drop(waiter);
    });
    assert!(matches!(ended, Err(CloudError { kind: CloudErrorKind::Abandoned, .. })), "{ended:?}");
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
}

/// The driver describes the volume again after the longest interval.
#[tokio::test(start_paused = true)]
async fn absurd_initialization_estimate_is_capped() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.ec2.override_statuses(|statuses| {
        for status in statuses {
            status.details = Some(vec![("initialization-state".to_owned(), "initializing".to_owned())]);
            status.estimate = Some(Duration::from_secs(u64::MAX));
        }
    });
    assert_error(fixture.await_initialized(&volume).await, CloudErrorKind::InProgress);
    fixture.ec2.override_statuses(|statuses| statuses.iter_mut().for_each(|status| status.details = Some(Vec::new())));
    fixture.pass(6 * 3600 + 1).await;
    fixture.await_initialized(&volume).await.unwrap();
}

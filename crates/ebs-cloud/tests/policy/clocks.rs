//! Tests how the driver computes the age of an attachment by AWS's own clock, and recognizes an attachment by its
//! attach time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use ebs_cloud::{Cloud, CloudConfig, CloudErrorKind, Lock, LockEnd, LockMode, SnapshotFeatures};
use ebs_ec2::{Action, DriverName, NodeId, Observation, Observer};
use ebs_sim::engine::TimingOverride;
use ebs_sim::iam::Extra;
use tokio::time::Instant;

use crate::fixture::{Fixture, message_of, snapshot_spec};

#[derive(Debug, Default)]
struct CountingObserver {
    spared: AtomicUsize,
    by_time: AtomicUsize,
}

impl Observer for CountingObserver {
    fn observe(&self, _: &Observation<'_>) {}

    fn spared(&self, action: Action) {
        assert_eq!(action, Action::DetachVolume);
        self.spared.fetch_add(1, Ordering::SeqCst);
    }

    fn ended_by_time(&self, _: Action) {
        self.by_time.fetch_add(1, Ordering::SeqCst);
    }
}

/// Removes the dates from all further descriptions of volumes.
fn without_dates(fixture: &Fixture) {
    fixture
        .ec2
        .override_volumes(|volumes| volumes.iter_mut().flat_map(|v| &mut v.attachments).for_each(|a| a.said_at = None));
}

/// The driver computes the age of another process's attachment by AWS's own clock.
#[tokio::test(start_paused = true)]
async fn only_old_attachment_is_reported_at_once_whatever_the_clock() {
    for (is_old, wrong) in [(true, 0), (true, -7_200), (true, 7_200), (false, 0), (false, -7_200), (false, 7_200)] {
        let (fixture, volume, node) = Fixture::with_volume_and_node().await;
        if is_old {
            fixture.attach(&volume, &node).await.unwrap();
        }
        let process = fixture.process(wrong, Arc::<CountingObserver>::default()).await;
        if !is_old {
            fixture.attach(&volume, &node).await.unwrap();
        }
        let began = Instant::now();
        process.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
        let (took, case) = (began.elapsed(), if is_old { "old" } else { "young" });
        assert_eq!(took < Duration::from_secs(1), is_old, "{case}, {wrong}: {took:?}");
        assert!(is_old || took >= Duration::from_secs(15), "{case}, {wrong}: {took:?}");
    }
}

/// The driver allows for a local clock that is 5 min wrong.
#[tokio::test(start_paused = true)]
async fn attachment_age_without_a_date_uses_the_local_clock() {
    for (age, at_once) in [(400, true), (200, false)] {
        let (fixture, volume, node) = Fixture::with_volume_and_node().await;
        fixture.attach(&volume, &node).await.unwrap();
        fixture.pass(age - 20).await;
        let process = fixture.process(0, Arc::<CountingObserver>::default()).await;
        without_dates(&fixture);
        let began = Instant::now();
        process.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
        assert_eq!(began.elapsed() < Duration::from_secs(1), at_once, "{age} s old: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn attachment_is_not_detached_because_of_a_wrong_clock() {
    for (dated, wrong) in [(true, 75), (true, 7_200), (false, 290), (false, -290)] {
        let (fixture, volume, node) = Fixture::with_volume_and_node().await;
        fixture.timing(TimingOverride { attach_ms: Some(40_000), ..TimingOverride::default() }).await;
        let process = fixture.process(wrong, Arc::<CountingObserver>::default()).await;
        if !dated {
            without_dates(&fixture);
        }
        process.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
        assert_eq!(fixture.count(Action::DetachVolume), 0, "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn wait_caused_by_a_different_attach_time_is_counted() {
    for (apart, by_time) in [(0, 0), (2, 0), (3, 1)] {
        let (fixture, volume, node) = Fixture::with_volume_and_node().await;
        let observer = Arc::<CountingObserver>::default();
        let process = fixture.process(0, observer.clone()).await;
        fixture.ec2.override_volumes(move |volumes| {
            for attachment in volumes.iter_mut().flat_map(|v| &mut v.attachments) {
                attachment.attach_time = attachment.attach_time.map(|time| time + Duration::from_secs(apart));
            }
        });
        let began = Instant::now();
        process.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
        assert_eq!(began.elapsed() < Duration::from_secs(1), by_time == 0, "{apart} s: {:?}", began.elapsed());
        assert_eq!(observer.by_time.load(Ordering::SeqCst), by_time, "{apart} s");
    }
}

#[tokio::test(start_paused = true)]
async fn extra_detach_calls_are_counted_separately() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    let observer = Arc::<CountingObserver>::default();
    let process = fixture.process(0, observer.clone()).await;
    process.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    process.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
    assert_eq!(fixture.count(Action::DetachVolume), 1 + observer.spared.load(Ordering::SeqCst));
    assert_eq!(observer.spared.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn cluster_node_volumes_are_attached_and_detached_quickly() {
    let (mut fixture, volume) = Fixture::with_volume().await;
    fixture.serve_alone().await;
    fixture.sim.declare(Extra::HyperPod);
    fixture
        .timing(TimingOverride { attach_ms: Some(2_000), detach_ms: Some(2_000), ..TimingOverride::default() })
        .await;
    let node = NodeId::parse("hyperpod-blue-i-0123456789abcdef0").expect("a node");
    for restarted in [false, true] {
        let began = Instant::now();
        fixture.attach(&volume, &node).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(6), "attach: {:?}", began.elapsed());
        fixture.pass(20).await;
        if restarted {
            fixture.restart();
            fixture.serve_alone().await;
        }
        let began = Instant::now();
        fixture.detach(&volume, &node).await.unwrap();
        assert!(fixture.volumes().await[0].attachments.is_empty());
        assert!(began.elapsed() < Duration::from_secs(6), "detach: {:?}", began.elapsed());
    }
}

/// The machine's clock may be set after the driver has started.
#[tokio::test(start_paused = true)]
async fn time_of_day_is_read_from_the_machine_each_time() {
    let (fixture, volume) = Fixture::with_volume().await;
    let cloud = Cloud::new(Arc::clone(&fixture.ec2), CloudConfig::new(DriverName::default()));
    // The machine's clock has fallen two days behind since the process started.
    fixture.pass(48 * 3600).await;
    let end = SystemTime::now() + Duration::from_secs(24 * 3600);
    let lock = Lock { mode: LockMode::Governance, end: LockEnd::At(end) };
    let features = SnapshotFeatures { lock: Some(lock), ..SnapshotFeatures::default() };
    let spec = snapshot_spec("snap", &volume);
    let error = cloud.snapshots.ensure(&spec, &features, &fixture.waiters).await.unwrap_err();
    // EC2's clock is right, so EC2 refuses a lock whose end is in the past.
    assert_eq!(error.kind, CloudErrorKind::InvalidArgument, "{error:?}");
    assert_eq!(fixture.count(Action::LockSnapshot), 1, "{}", message_of(&error));
}

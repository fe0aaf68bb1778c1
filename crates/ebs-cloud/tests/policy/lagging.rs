//! Describes that lag, each by a time of its own: one may show what the one before did not show any more.

use ebs_cloud::{Ensured, Source, VolumeSpec};
use ebs_ec2::Action;
use ebs_sim::faults::{Effect, Rule};
use ebs_types::{Gib, VolumeId};
use tokio::time::Instant;

use crate::fixture::{Fixture, in_zone, snapshot_spec, spec};

/// The next describe of that kind shows everything as it was so long ago.
fn next_describe_lags(fixture: &Fixture, action: &str, seconds: u64) {
    let rule = Rule::new(Effect::Stale { lag_ms: seconds * 1000 }).on(action).times(1);
    fixture.sim.faults().add(rule).expect("a rule");
}

/// A volume or snapshot that this process made a moment ago is not said to be missing because a look does not show it yet; one
/// that it has deleted, or never heard of, is missing at once.
#[tokio::test(start_paused = true)]
async fn what_was_made_a_moment_ago_is_not_missing_for_a_reader() {
    let fixture = Fixture::new().await;
    let source = fixture.volume("pvc-source").await;
    let snapshot = fixture.cloud.snapshots.create(&snapshot_spec("snap-a", &source.id), &fixture.waiters).await;
    let snapshot = snapshot.map(Ensured::into_inner).unwrap();
    let volume = fixture.volume("pvc-1").await;
    let began = Instant::now();
    fixture.ec2.override_volumes(move |volumes| volumes.retain(|_| began.elapsed().as_secs() >= 12));
    fixture.ec2.override_snapshots(move |snapshots| snapshots.retain(|_| began.elapsed().as_secs() >= 12));
    let (seen, taken) = tokio::join!(fixture.cloud.volumes.get(&volume.id), fixture.cloud.snapshots.get(&snapshot.id));
    assert_eq!((seen.unwrap().id, taken.unwrap().map(|s| s.id)), (volume.id.clone(), Some(snapshot.id.clone())));
    fixture.ec2.clear_overrides();
    fixture.cloud.snapshots.delete(&snapshot.id, &fixture.waiters).await.unwrap();
    fixture.cloud.volumes.delete(&volume.id, &fixture.waiters).await.unwrap();
    let began = Instant::now();
    let stranger = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    for id in [&volume.id, &stranger] {
        assert!(fixture.cloud.volumes.get(id).await.unwrap_err().is_not_found());
    }
    assert_eq!(fixture.cloud.snapshots.get(&snapshot.id).await.unwrap().map(|s| s.id), None);
    assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
}

/// A sighting ends no doubt: the next look may lag more.
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_was_seen_once_and_then_not_is_not_taken_twice() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let made = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
    fixture.pass(5).await;
    fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).expect("seen");
    next_describe_lags(&fixture, "DescribeSnapshots", 12);
    let again = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
    assert_eq!((again.id, fixture.count(Action::CreateSnapshot)), (made.id, 1));
}

/// What this process deleted is not found by a look that lags.
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_was_deleted_is_not_found_by_a_describe_that_lags() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let first = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
    fixture.pass(20).await;
    fixture.cloud.snapshots.delete(&first.id, &fixture.waiters).await.unwrap();
    fixture.pass(2).await;
    next_describe_lags(&fixture, "DescribeSnapshots", 5);
    let second = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
    assert_ne!(second.id, first.id);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_volume_that_a_describe_still_shows_does_not_stand_in_the_way_of_its_name() {
    let fixture = Fixture::new().await;
    let first = fixture.volume("pvc-1").await;
    fixture.pass(20).await;
    fixture.cloud.volumes.delete(&first.id, &fixture.waiters).await.unwrap();
    fixture.pass(2).await;
    next_describe_lags(&fixture, "DescribeVolumes", 5);
    let second = fixture.create(&in_zone(spec("pvc-1"), "us-west-2b")).await.unwrap();
    assert_eq!(second.zone.as_ref().map(|z| z.as_str()), Some("us-west-2b"));
}

/// A source made a moment ago is waited for before it counts as missing.
#[tokio::test(start_paused = true)]
async fn a_source_that_describes_do_not_show_yet_is_waited_for() {
    let fixture = Fixture::new().await;
    let origin = fixture.volume("origin").await;
    next_describe_lags(&fixture, "DescribeVolumes", 15);
    let clone = VolumeSpec { source: Source::Volume(origin.id.clone()), ..spec("pvc-1") };
    assert_eq!(fixture.create(&clone).await.unwrap().source_volume, Some(origin.id.clone()));
    let snapshot = fixture.cloud.snapshots.create(&snapshot_spec("snap-a", &origin.id), &fixture.waiters).await;
    let snapshot = snapshot.map(Ensured::into_inner).unwrap();
    next_describe_lags(&fixture, "DescribeSnapshots", 15);
    let mut restored = VolumeSpec { source: Source::Snapshot(snapshot.id.clone()), ..spec("pvc-2") };
    restored.capacity.required = None;
    let restored = fixture.create(&restored).await.unwrap();
    assert_eq!((restored.snapshot, restored.size), (Some(snapshot.id), Gib(100)));
}

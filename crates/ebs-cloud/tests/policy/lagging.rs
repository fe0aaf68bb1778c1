//! Describes that lag, each by a time of its own: one may show what the one before did not show any more.

use ebs_cloud::{Ensured, Source, VolumeSpec};
use ebs_ec2::Action;
use ebs_sim::faults::{Effect, Rule};
use ebs_types::Gib;

use crate::rig::{Rig, in_zone, snapshot_spec, spec};

/// The next describe of that kind shows everything as it was so long ago.
fn next_describe_lags(rig: &Rig, action: &str, seconds: u64) {
    let rule = Rule::new(Effect::Stale { lag_ms: seconds * 1000 }).on(action).times(1);
    rig.sim.faults().add(rule).expect("a rule");
}

/// A sighting ends no doubt: the next look may lag more.
///
/// Rule: D-13; found by the model
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_was_seen_once_and_then_not_is_not_taken_twice() {
    let rig = Rig::new().await;
    let volume = rig.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let made = rig.cloud.snapshots.create(&spec, &rig.waiters).await.map(Ensured::into_inner).unwrap();
    rig.pass(5).await;
    rig.cloud.snapshots.create(&spec, &rig.waiters).await.map(Ensured::into_inner).expect("seen");
    next_describe_lags(&rig, "DescribeSnapshots", 12);
    let again = rig.cloud.snapshots.create(&spec, &rig.waiters).await.map(Ensured::into_inner).unwrap();
    assert_eq!((again.id, rig.count(Action::CreateSnapshot)), (made.id, 1));
}

/// What this process deleted is not found by a look that lags.
///
/// Rule: D-12, D-13; found by the model
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_was_deleted_is_not_found_by_a_describe_that_lags() {
    let rig = Rig::new().await;
    let volume = rig.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let first = rig.cloud.snapshots.create(&spec, &rig.waiters).await.map(Ensured::into_inner).unwrap();
    rig.pass(20).await;
    rig.cloud.snapshots.delete(&first.id, &rig.waiters).await.unwrap();
    rig.pass(2).await;
    next_describe_lags(&rig, "DescribeSnapshots", 5);
    let second = rig.cloud.snapshots.create(&spec, &rig.waiters).await.map(Ensured::into_inner).unwrap();
    assert_ne!(second.id, first.id);
}

/// Rule: see `a_snapshot_that_was_deleted_is_not_found_by_a_describe_that_lags`
#[tokio::test(start_paused = true)]
async fn a_deleted_volume_that_a_describe_still_shows_does_not_stand_in_the_way_of_its_name() {
    let rig = Rig::new().await;
    let first = rig.volume("pvc-1").await;
    rig.pass(20).await;
    rig.cloud.volumes.delete(&first.id, &rig.waiters).await.unwrap();
    rig.pass(2).await;
    next_describe_lags(&rig, "DescribeVolumes", 5);
    let second = rig.create(&in_zone(spec("pvc-1"), "us-west-2b")).await.unwrap();
    assert_eq!(second.zone.as_ref().map(|z| z.as_str()), Some("us-west-2b"));
}

/// A source made a moment ago is waited for before it counts as missing.
///
/// Rule: D-16; found by the model
#[tokio::test(start_paused = true)]
async fn a_source_that_describes_do_not_show_yet_is_waited_for() {
    let rig = Rig::new().await;
    let origin = rig.volume("origin").await;
    next_describe_lags(&rig, "DescribeVolumes", 15);
    let clone = VolumeSpec { source: Source::Volume(origin.id.clone()), ..spec("pvc-1") };
    assert_eq!(rig.create(&clone).await.unwrap().source_volume, Some(origin.id.clone()));
    let snapshot = rig.cloud.snapshots.create(&snapshot_spec("snap-a", &origin.id), &rig.waiters).await;
    let snapshot = snapshot.map(Ensured::into_inner).unwrap();
    next_describe_lags(&rig, "DescribeSnapshots", 15);
    let mut restored = VolumeSpec { source: Source::Snapshot(snapshot.id.clone()), ..spec("pvc-2") };
    restored.capacity.required = None;
    let restored = rig.create(&restored).await.unwrap();
    assert_eq!((restored.snapshot, restored.size), (Some(snapshot.id), Gib(100)));
}

//! Stale describes: a describe may show an earlier state than the previous describe.

use ebs_cloud::{Source, VolumeSpec};
use ebs_ec2::{Action, Gib, VolumeId};
use ebs_sim::faults::{Effect, Rule};
use tokio::time::Instant;

use crate::fixture::{Fixture, in_zone, snapshot_spec, spec};

/// Makes the next describe of this kind show the state of `seconds` ago.
fn next_describe_lags(fixture: &Fixture, action: &str, seconds: u64) {
    let rule = Rule::new(Effect::Stale { lag_ms: seconds * 1000 }).on(action).times(1);
    fixture.sim.faults().add(rule).expect("a rule");
}

/// Makes the simulator keep old states from now on. Without this, it keeps none before its first rule for stale
/// describes.
fn keep_history(fixture: &Fixture) {
    let rule = Rule::new(Effect::Stale { lag_ms: 1 }).on("DescribeAvailabilityZones").times(1);
    fixture.sim.faults().add(rule).expect("a rule");
}

/// A read immediately reports an object as missing if this process deleted the object or does not know it.
#[tokio::test(start_paused = true)]
async fn new_object_is_found_although_describes_are_stale() {
    let fixture = Fixture::new().await;
    let source = fixture.volume("pvc-source").await;
    let snapshot = fixture.snapshot(&snapshot_spec("snap-a", &source.id)).await;
    let snapshot = snapshot.unwrap();
    let volume = fixture.volume("pvc-1").await.id;
    let began = Instant::now();
    fixture.ec2.override_volumes(move |volumes| volumes.retain(|_| began.elapsed().as_secs() >= 12));
    fixture.ec2.override_snapshots(move |snapshots| snapshots.retain(|_| began.elapsed().as_secs() >= 12));
    let (seen, taken) = tokio::join!(fixture.cloud.volumes.get(&volume), fixture.cloud.snapshots.get(&snapshot.id));
    assert_eq!((seen.unwrap().id, taken.unwrap().map(|s| s.id)), (volume.clone(), Some(snapshot.id.clone())));
    fixture.ec2.clear_overrides();
    fixture.delete_snapshot(&snapshot.id).await.unwrap();
    fixture.delete(&volume).await.unwrap();
    let began = Instant::now();
    let stranger = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    for id in [&volume, &stranger] {
        assert!(fixture.cloud.volumes.get(id).await.unwrap_err().is_not_found());
    }
    assert_eq!(fixture.cloud.snapshots.get(&snapshot.id).await.unwrap().map(|s| s.id), None);
    assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
}

/// The next describe may be staler than the first.
#[tokio::test(start_paused = true)]
async fn snapshot_that_disappears_again_is_not_taken_twice() {
    let (fixture, volume) = Fixture::with_volume().await;
    let spec = snapshot_spec("snap-a", &volume);
    let made = fixture.snapshot(&spec).await.unwrap();
    fixture.pass(5).await;
    fixture.snapshot(&spec).await.expect("seen");
    next_describe_lags(&fixture, "DescribeSnapshots", 12);
    let again = fixture.snapshot(&spec).await.unwrap();
    assert_eq!((again.id, fixture.count(Action::CreateSnapshot)), (made.id, 1));
}

#[tokio::test(start_paused = true)]
async fn deleted_snapshot_in_a_stale_describe_is_ignored() {
    let (fixture, volume) = Fixture::with_volume().await;
    keep_history(&fixture);
    let spec = snapshot_spec("snap-a", &volume);
    let first = fixture.snapshot(&spec).await.unwrap();
    fixture.pass(20).await;
    fixture.delete_snapshot(&first.id).await.unwrap();
    fixture.pass(2).await;
    next_describe_lags(&fixture, "DescribeSnapshots", 5);
    let second = fixture.snapshot(&spec).await.unwrap();
    assert_ne!(second.id, first.id);
}

#[tokio::test(start_paused = true)]
async fn snapshot_deleted_by_the_previous_process_is_ignored() {
    for is_of_another_volume in [false, true] {
        let (mut fixture, volume) = Fixture::with_volume().await;
        let first = fixture.snapshot(&snapshot_spec("snap-a", &volume)).await.unwrap();
        let volume = if is_of_another_volume { fixture.volume("pvc-2").await.id } else { volume };
        fixture.pass(20).await;
        fixture.delete_snapshot(&first.id).await.unwrap();
        fixture.restart();
        let (deleted, began) = (first.clone(), Instant::now());
        fixture.ec2.override_snapshots(move |snapshots| {
            if began.elapsed().as_secs() < 14 {
                *snapshots = vec![deleted.clone()];
            }
        });
        let second = fixture.snapshot(&snapshot_spec("snap-a", &volume)).await.unwrap();
        assert_ne!(second.id, first.id);
        assert_eq!((second.source_volume, fixture.snapshots().await), (Some(volume), 1));
    }
}

/// Another process may have deleted the snapshot just before its sidecar lost the lease.
#[tokio::test(start_paused = true)]
async fn process_waits_before_reporting_a_snapshot_it_did_not_make() {
    let (mut fixture, volume) = Fixture::with_volume().await;
    let spec = snapshot_spec("snap-a", &volume);
    let create = async |fixture: &Fixture| {
        let began = Instant::now();
        let snapshot = fixture.snapshot(&spec).await.unwrap();
        (snapshot.id, began.elapsed().as_secs())
    };
    fixture.restart();
    let (made, _) = create(&fixture).await;
    let (own, time) = create(&fixture).await;
    assert!(own == made && time < 2, "the process that made it took {time} s");
    fixture.restart();
    let (found, time) = create(&fixture).await;
    assert!(found == made && (14..20).contains(&time), "the next process took {time} s");
}

#[tokio::test(start_paused = true)]
async fn deleted_volume_in_a_stale_describe_is_ignored() {
    let fixture = Fixture::new().await;
    keep_history(&fixture);
    let first = fixture.volume("pvc-1").await;
    fixture.pass(20).await;
    fixture.delete(&first.id).await.unwrap();
    fixture.pass(2).await;
    next_describe_lags(&fixture, "DescribeVolumes", 15);
    let second = fixture.create(&in_zone(spec("pvc-1"), "us-west-2b")).await.unwrap();
    assert_eq!(second.zone.as_ref().map(|z| z.as_str()), Some("us-west-2b"));
}

#[tokio::test(start_paused = true)]
async fn source_that_is_not_listed_yet_is_awaited() {
    let fixture = Fixture::new().await;
    let origin = fixture.volume("origin").await;
    next_describe_lags(&fixture, "DescribeVolumes", 15);
    let clone = VolumeSpec { source: Source::Volume(origin.id.clone()), ..spec("pvc-1") };
    assert_eq!(fixture.create(&clone).await.unwrap().source_volume, Some(origin.id.clone()));
    let snapshot = fixture.snapshot(&snapshot_spec("snap-a", &origin.id)).await;
    let snapshot = snapshot.unwrap();
    next_describe_lags(&fixture, "DescribeSnapshots", 15);
    let mut restored = VolumeSpec { source: Source::Snapshot(snapshot.id.clone()), ..spec("pvc-2") };
    restored.capacity.required = None;
    let restored = fixture.create(&restored).await.unwrap();
    assert_eq!((restored.snapshot, restored.size), (Some(snapshot.id), Gib(100)));
}

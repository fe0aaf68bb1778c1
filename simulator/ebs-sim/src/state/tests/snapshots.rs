//! Snapshots.

use super::*;
use crate::api::SimSnapshot;

fn create(volume: &str) -> String {
    format!("CreateSnapshot VolumeId={volume}")
}

fn delete(snapshot: &str) -> String {
    format!("DeleteSnapshot SnapshotId={snapshot}")
}

impl World {
    fn described_snapshot(&mut self, id: &str) -> SimSnapshot {
        ok!(self, DescribeSnapshots, "SnapshotId.1={id}").items.remove(0)
    }

    /// Starts a snapshot whose data is not copied yet.
    fn started_snapshot(&mut self, volume: &str) -> SimSnapshot {
        match self.apply(&create(volume)) {
            Ok(Reply::CreateSnapshot(snapshot)) => snapshot,
            other => panic!("{other:?}"),
        }
    }
}

/// A pending snapshot shows its progress.
#[test]
fn snapshot_is_pending_until_its_delay_and_data_copy_end() {
    let mut world = World::realistic();
    let (volume, _) = world.ready();
    let snapshot = world.started_snapshot(&volume);
    assert_eq!((snapshot.state.as_str(), snapshot.progress, snapshot.size_gib), ("pending", 0, 4));
    let effects = world.sim.take_effects();
    assert_eq!(effects, [Effect::CopyToSnapshot { volume, snapshot: snapshot.id.clone() }]);
    assert!(effects[0].holds_reply(), "its data are those of the time of the call");
    world.now += secs(10);
    assert_eq!(world.described_snapshot(&snapshot.id).progress, 50);
    world.now += secs(100);
    let late = world.described_snapshot(&snapshot.id);
    assert_eq!((late.state.as_str(), late.progress), ("pending", 99), "its data are not copied");
    world.sim.finish(world.now, &effects[0], &Outcome::Done(None));
    world.settle();
    let done = world.described_snapshot(&snapshot.id);
    assert_eq!((done.state.as_str(), done.progress), ("completed", 100));
}

#[test]
fn snapshot_with_failed_copy_is_in_error() {
    let mut world = World::instant();
    let volume = world.gp3();
    let id = world.started_snapshot(&volume).id;
    world.fail_effects("disk full");
    let failed = world.described_snapshot(&id);
    assert_eq!((failed.state.as_str(), failed.status_message.as_deref()), ("error", Some("disk full")));
}

#[test]
fn snapshot_of_a_missing_or_creating_volume_is_rejected() {
    let mut world = World::realistic();
    let volume = world.gp3();
    world.refuses([
        (create(&volume), "IncorrectState"),
        (create("vol-00000000"), "InvalidVolume.NotFound"),
        (create(&volume) + " Description=" + &"x".repeat(256), "InvalidParameterValue"),
    ]);
}

#[test]
fn snapshot_outlives_volume_and_is_deleted_at_once() {
    let mut world = World::instant();
    let volume = world.gp3();
    let snapshot = world.snapshot(&volume);
    world.done(&format!("DeleteVolume VolumeId={volume}"));
    world.described_snapshot(&snapshot);
    world.apply(&delete(&snapshot)).unwrap();
    assert_eq!(world.sim.take_effects(), [Effect::DeleteSnapshotData { snapshot: snapshot.clone() }]);
    world.refuses([
        (delete(&snapshot), "InvalidSnapshot.NotFound"),
        (format!("DescribeSnapshots SnapshotId.1={snapshot}"), "InvalidSnapshot.NotFound"),
        (delete("snap"), "InvalidParameterValue"),
    ]);
}

#[test]
fn data_of_deleted_snapshot_stays_while_volumes_need_it() {
    let mut world = World::instant();
    let source = world.gp3();
    let snapshot = world.snapshot(&source);
    world.apply(&format!("{GP3} SnapshotId={snapshot}")).unwrap();
    let fill = world.sim.take_effects().remove(0);
    world.apply(&delete(&snapshot)).unwrap();
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), []);
    world.sim.finish(world.now, &fill, &Outcome::Done(None));
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), [Effect::DeleteSnapshotData { snapshot }]);
}

#[test]
fn data_of_snapshot_deleted_during_copy_is_deleted_later() {
    let mut world = World::instant();
    let volume = world.gp3();
    let snapshot = world.started_snapshot(&volume).id;
    let copy = world.sim.take_effects().remove(0);
    world.apply(&delete(&snapshot)).unwrap();
    assert_eq!(world.sim.take_effects(), []);
    world.sim.finish(world.now, &copy, &Outcome::Done(None));
    assert_eq!(world.sim.take_effects(), [Effect::DeleteSnapshotData { snapshot }]);
}

#[test]
fn snapshots_are_found_by_volume_owner_or_state() {
    let mut world = World::instant();
    let (a, b) = (world.gp3(), world.gp3());
    let (of_a, _of_b) = (world.snapshot(&a), world.snapshot(&b));
    let found = ok!(world, DescribeSnapshots, "{}", by("volume-id", &a)).items;
    assert_eq!(found.iter().map(|s| s.id.clone()).collect::<Vec<_>>(), [of_a]);
    for (query, count) in [
        (by("status", "completed"), 2),
        (by("status", "pending"), 0),
        (by("owner-id", "123456789012"), 2),
        ("Owner.1=self".to_owned(), 2),
        ("Owner.1=amazon".to_owned(), 0),
        ("Owner.1=123456789012".to_owned(), 2),
        ("Owner.1=999999999999".to_owned(), 0),
    ] {
        assert_eq!(ok!(world, DescribeSnapshots, "{query}").items.len(), count, "{query}");
    }
}

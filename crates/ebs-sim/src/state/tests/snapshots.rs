//! Snapshots.

use super::*;
use crate::api::{DeleteSnapshot, DescribeSnapshots, SimSnapshot};

fn create(volume: &str) -> Call {
    Call::CreateSnapshot(CreateSnapshot { volume_id: volume.to_owned(), ..Default::default() })
}

fn delete(snapshot: &str) -> Call {
    Call::DeleteSnapshot(DeleteSnapshot { snapshot_id: snapshot.to_owned(), dry_run: false })
}

fn describe(world: &mut World, call: DescribeSnapshots) -> Result<Vec<SimSnapshot>, Fault> {
    match world.call(Call::DescribeSnapshots(call))? {
        Reply::DescribeSnapshots(listing) => Ok(listing.items),
        other => panic!("{other:?}"),
    }
}

fn by_id(id: &str) -> DescribeSnapshots {
    DescribeSnapshots { snapshot_ids: vec![id.to_owned()], ..Default::default() }
}

/// A snapshot is pending with progress until its data are copied.
#[test]
fn a_snapshot_is_pending_with_progress_until_its_time_has_passed_and_its_data_are_copied() {
    let mut world = World::realistic();
    let volume = world.gp3();
    world.pass(Duration::from_secs(10));
    let Ok(Reply::CreateSnapshot(snapshot)) = world.apply(create(&volume)) else { panic!() };
    assert_eq!((snapshot.state.as_str(), snapshot.progress, snapshot.size_gib), ("pending", 0, 4));
    let effects = world.sim.take_effects();
    assert_eq!(effects, [Effect::CopyToSnapshot { volume, snapshot: snapshot.id.clone() }]);
    assert!(effects[0].holds_reply(), "its data are those of the time of the call");
    world.now += Duration::from_secs(10);
    assert_eq!(describe(&mut world, by_id(&snapshot.id)).unwrap()[0].progress, 50);
    world.now += Duration::from_secs(100);
    let late = describe(&mut world, by_id(&snapshot.id)).unwrap().remove(0);
    assert_eq!((late.state.as_str(), late.progress), ("pending", 99), "its data are not copied");
    world.sim.finish(world.now, &effects[0], &Outcome::Done(None));
    world.settle();
    let done = describe(&mut world, by_id(&snapshot.id)).unwrap().remove(0);
    assert_eq!((done.state.as_str(), done.progress), ("completed", 100));
}

#[test]
fn a_snapshot_whose_data_cannot_be_copied_is_in_error() {
    let mut world = World::instant();
    let volume = world.gp3();
    let Ok(Reply::CreateSnapshot(snapshot)) = world.apply(create(&volume)) else { panic!() };
    let effect = world.sim.take_effects().remove(0);
    world.sim.finish(world.now, &effect, &Outcome::Failed("disk full".into()));
    world.settle();
    let failed = describe(&mut world, by_id(&snapshot.id)).unwrap().remove(0);
    assert_eq!((failed.state.as_str(), failed.status_message.as_deref()), ("error", Some("disk full")));
}

/// One snapshot of a volume per 15 s.
#[test]
fn one_snapshot_of_a_volume_in_fifteen_seconds() {
    let mut world = World::realistic();
    let (volume, other) = (world.gp3(), world.gp3());
    world.pass(Duration::from_secs(10));
    world.snapshot(&volume);
    world.snapshot(&other);
    world.pass(Duration::from_secs(14));
    assert_eq!(world.refused(create(&volume)), "SnapshotCreationPerVolumeRateExceeded");
    world.pass(Duration::from_secs(1));
    world.snapshot(&volume);

    let mut world = World::instant();
    let volume = world.gp3();
    world.snapshot(&volume);
    world.snapshot(&volume);
}

#[test]
fn five_snapshots_of_a_volume_may_be_pending() {
    let mut world = World::of(EngineConfig {
        timing: Timing::Realistic,
        snapshot_interval: Some(Duration::ZERO),
        ..EngineConfig::default()
    });
    let volume = world.gp3();
    world.pass(Duration::from_secs(10));
    for _ in 0..5 {
        world.snapshot(&volume);
    }
    assert_eq!(world.refused(create(&volume)), "ConcurrentSnapshotLimitExceeded");
    world.pass(Duration::from_secs(30));
    world.snapshot(&volume);
}

#[test]
fn a_snapshot_needs_a_volume_that_exists_and_is_ready() {
    let mut world = World::realistic();
    let volume = world.gp3();
    assert_eq!(world.refused(create(&volume)), "IncorrectState");
    assert_eq!(world.refused(create("vol-00000000")), "InvalidVolume.NotFound");
    world.pass(Duration::from_secs(10));
    let wordy = CreateSnapshot { volume_id: volume, description: Some("x".repeat(256)), ..Default::default() };
    assert_eq!(world.refused(Call::CreateSnapshot(wordy)), "InvalidParameterValue");
}

#[test]
fn a_snapshot_outlives_its_volume_and_is_gone_at_once_when_deleted() {
    let mut world = World::instant();
    let volume = world.gp3();
    let snapshot = world.snapshot(&volume);
    let gone = crate::api::DeleteVolume { volume_id: volume, dry_run: false };
    world.call(Call::DeleteVolume(gone)).unwrap();
    assert_eq!(describe(&mut world, by_id(&snapshot)).unwrap().len(), 1);
    world.apply(delete(&snapshot)).unwrap();
    assert_eq!(world.sim.take_effects(), [Effect::DeleteSnapshotData { snapshot: snapshot.clone() }]);
    assert_eq!(world.refused(delete(&snapshot)), "InvalidSnapshot.NotFound");
    assert_eq!(describe(&mut world, by_id(&snapshot)).unwrap_err().code, "InvalidSnapshot.NotFound");
    assert_eq!(world.refused(delete("snap")), "InvalidParameterValue");
}

#[test]
fn the_data_of_a_deleted_snapshot_stay_until_no_volume_is_filled_from_them() {
    let mut world = World::instant();
    let source = world.gp3();
    let snapshot = world.snapshot(&source);
    let from = CreateVolume { snapshot_id: Some(snapshot.clone()), ..gp3() };
    world.apply(Call::CreateVolume(from)).unwrap();
    let fill = world.sim.take_effects().remove(0);
    world.apply(delete(&snapshot)).unwrap();
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), []);
    world.sim.finish(world.now, &fill, &Outcome::Done(None));
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), [Effect::DeleteSnapshotData { snapshot }]);
}

#[test]
fn a_snapshot_deleted_while_it_is_copied_loses_its_data_when_they_have_arrived() {
    let mut world = World::instant();
    let volume = world.gp3();
    let Ok(Reply::CreateSnapshot(snapshot)) = world.apply(create(&volume)) else { panic!() };
    let copy = world.sim.take_effects().remove(0);
    world.apply(delete(&snapshot.id)).unwrap();
    assert_eq!(world.sim.take_effects(), []);
    world.sim.finish(world.now, &copy, &Outcome::Done(None));
    assert_eq!(world.sim.take_effects(), [Effect::DeleteSnapshotData { snapshot: snapshot.id }]);
}

#[test]
fn snapshots_are_found_by_volume_owner_and_state() {
    let mut world = World::instant();
    let (a, b) = (world.gp3(), world.gp3());
    let (of_a, _of_b) = (world.snapshot(&a), world.snapshot(&b));
    let with =
        |name: &str, value: &str| DescribeSnapshots { filters: vec![filter_of(name, &[value])], ..Default::default() };
    let found = describe(&mut world, with("volume-id", &a)).unwrap();
    assert_eq!(found.iter().map(|s| s.id.clone()).collect::<Vec<_>>(), [of_a]);
    assert_eq!(describe(&mut world, with("status", "completed")).unwrap().len(), 2);
    assert_eq!(describe(&mut world, with("status", "pending")).unwrap().len(), 0);
    assert_eq!(describe(&mut world, with("owner-id", "123456789012")).unwrap().len(), 2);
    for (owner, number) in [("self", 2), ("amazon", 0), ("123456789012", 2), ("999999999999", 0)] {
        let call = DescribeSnapshots { owner_ids: vec![owner.to_owned()], ..Default::default() };
        assert_eq!(describe(&mut world, call).unwrap().len(), number, "{owner}");
    }
}

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

/// A pending snapshot has a progress.
#[test]
fn snapshot_is_pending_until_time_and_data_are_complete() {
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
fn snapshot_with_failed_copy_is_in_error() {
    let mut world = World::instant();
    let volume = world.gp3();
    let Ok(Reply::CreateSnapshot(snapshot)) = world.apply(create(&volume)) else { panic!() };
    let effect = world.sim.take_effects().remove(0);
    world.sim.finish(world.now, &effect, &Outcome::Failed("disk full".into()));
    world.settle();
    let failed = describe(&mut world, by_id(&snapshot.id)).unwrap().remove(0);
    assert_eq!((failed.state.as_str(), failed.status_message.as_deref()), ("error", Some("disk full")));
}

#[test]
fn second_snapshot_of_volume_in_15_s_is_rejected() {
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
fn five_snapshots_of_volume_may_be_pending() {
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
fn snapshot_needs_existing_and_ready_volume() {
    let mut world = World::realistic();
    let volume = world.gp3();
    assert_eq!(world.refused(create(&volume)), "IncorrectState");
    assert_eq!(world.refused(create("vol-00000000")), "InvalidVolume.NotFound");
    world.pass(Duration::from_secs(10));
    let wordy = CreateSnapshot { volume_id: volume, description: Some("x".repeat(256)), ..Default::default() };
    assert_eq!(world.refused(Call::CreateSnapshot(wordy)), "InvalidParameterValue");
}

#[test]
fn snapshot_outlives_volume_and_is_deleted_at_once() {
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
fn data_of_deleted_snapshot_stays_while_volumes_need_it() {
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
fn snapshot_deleted_during_copy_loses_data_afterwards() {
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
fn snapshots_are_found_by_volume_owner_or_state() {
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

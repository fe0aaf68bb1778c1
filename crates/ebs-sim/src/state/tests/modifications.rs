//! ModifyVolume and DescribeVolumesModifications.

use super::*;
use crate::api::{DescribeVolumesModifications, ModifyVolume, SimModification};

fn modify(volume: &str) -> ModifyVolume {
    ModifyVolume { volume_id: volume.to_owned(), ..Default::default() }
}

fn grow(volume: &str, size: i64) -> Call {
    Call::ModifyVolume(ModifyVolume { size: Some(size), ..modify(volume) })
}

fn described(world: &mut World, volume_ids: &[&str], filters: Vec<Filter>) -> Result<Vec<SimModification>, Fault> {
    let volume_ids = volume_ids.iter().map(|id| (*id).to_owned()).collect();
    let call = DescribeVolumesModifications { volume_ids, filters, ..Default::default() };
    match world.call(Call::DescribeVolumesModifications(call))? {
        Reply::DescribeVolumesModifications(listing) => Ok(listing.items),
        other => panic!("{other:?}"),
    }
}

fn state(world: &mut World, volume: &str) -> String {
    described(world, &[volume], vec![]).unwrap().remove(0).state
}

/// The state is `modifying` until the device has grown, then `optimizing`, then `completed`.
#[test]
fn modification_passes_its_states_after_device_has_grown() {
    let mut world = World::realistic();
    let volume = world.gp3();
    world.pass(Duration::from_secs(10));
    let Ok(Reply::ModifyVolume(reply)) = world.apply(grow(&volume, 9)) else { panic!() };
    assert_eq!((reply.state.as_str(), reply.original.size_gib, reply.target.size_gib), ("modifying", 4, 9));
    assert_eq!(world.volume(&volume).size_gib, 9, "the target shows early");
    let effects = world.sim.take_effects();
    assert_eq!(effects, [Effect::Grow { volume: volume.clone(), gib: 9 }]);
    world.pass(Duration::from_secs(30));
    assert_eq!(state(&mut world, &volume), "modifying");
    world.sim.finish(world.now, &effects[0], &Outcome::Done(None));
    world.settle();
    assert_eq!(state(&mut world, &volume), "optimizing");
    world.pass(Duration::from_secs(60));
    assert_eq!(state(&mut world, &volume), "completed");
}

#[test]
fn failed_modification_keeps_old_size() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.apply(grow(&volume, 9)).unwrap();
    for effect in world.sim.take_effects() {
        world.sim.finish(world.now, &effect, &Outcome::Failed("disk full".into()));
    }
    let modification = described(&mut world, &[&volume], vec![]).unwrap().remove(0);
    assert_eq!((modification.state.as_str(), modification.status_message.as_deref()), ("failed", Some("disk full")));
    assert_eq!(world.volume(&volume).size_gib, 4);
}

#[test]
fn second_concurrent_modification_is_rejected() {
    let mut world = World::realistic();
    let volume = world.gp3();
    world.pass(Duration::from_secs(10));
    world.call(grow(&volume, 5)).unwrap();
    assert_eq!(world.refused(grow(&volume, 6)), "IncorrectModificationState");
    world.pass(Duration::from_secs(5));
    assert_eq!(state(&mut world, &volume), "optimizing");
    assert_eq!(world.refused(grow(&volume, 6)), "IncorrectModificationState");
    world.pass(Duration::from_secs(60));
    world.call(grow(&volume, 6)).unwrap();
}

/// The limit applies to a rolling period of 24 h.
#[test]
fn fifth_modification_in_24_hours_is_rejected() {
    let mut world = World::realistic();
    let volume = world.gp3();
    world.pass(Duration::from_secs(10));
    for size in 5..9 {
        world.call(grow(&volume, size)).unwrap();
        world.pass(Duration::from_hours(1));
    }
    assert_eq!(world.refused(grow(&volume, 9)), "VolumeModificationRateExceeded");
    world.pass(Duration::from_hours(20) - Duration::from_secs(1));
    assert_eq!(world.refused(grow(&volume, 9)), "VolumeModificationRateExceeded");
    world.pass(Duration::from_secs(1));
    world.call(grow(&volume, 9)).unwrap();
    world.pass(Duration::from_secs(100));
    assert_eq!(world.refused(grow(&volume, 10)), "VolumeModificationRateExceeded", "the window rolls");
}

#[test]
fn omitted_values_stay_unless_they_belong_to_old_type() {
    let mut world = World::instant();
    let volume = world.create(CreateVolume { iops: Some(4000), throughput: Some(500), size: Some(100), ..gp3() }).id;
    world.call(grow(&volume, 200)).unwrap();
    let v = world.volume(&volume);
    assert_eq!((v.size_gib, v.iops, v.throughput), (200, Some(4000), Some(500)));
    let to =
        |t: &str, iops| Call::ModifyVolume(ModifyVolume { volume_type: Some(t.to_owned()), iops, ..modify(&volume) });
    assert_eq!(world.refused(to("io2", None)), "InvalidParameterCombination");
    world.call(to("io2", Some(5000))).unwrap();
    let v = world.volume(&volume);
    assert_eq!((v.volume_type.as_str(), v.iops, v.throughput), ("io2", Some(5000), None));
    world.call(to("gp2", None)).unwrap();
    world.call(grow(&volume, 1000)).unwrap();
    assert_eq!(world.volume(&volume).iops, Some(3000), "gp2 computes its own");
    world.call(to("gp3", None)).unwrap();
    let v = world.volume(&volume);
    assert_eq!((v.iops, v.throughput), (Some(3000), Some(125)));
}

#[test]
fn invalid_modification_is_rejected() {
    let mut world = World::instant();
    let volume = world.gp3();
    for (call, code) in [
        (ModifyVolume { size: Some(3), ..modify(&volume) }, "InvalidParameterValue"),
        (ModifyVolume { size: Some(65_537), ..modify(&volume) }, "InvalidParameterValue"),
        (ModifyVolume { volume_type: Some("gp9".into()), ..modify(&volume) }, "UnknownVolumeType"),
        (ModifyVolume { iops: Some(1), ..modify(&volume) }, "InvalidParameterValue"),
        (ModifyVolume { throughput: Some(2001), ..modify(&volume) }, "InvalidParameterValue"),
        (modify(&volume), "InvalidParameterValue"),
        (ModifyVolume { size: Some(9), ..modify("vol-00000000") }, "InvalidVolume.NotFound"),
    ] {
        assert_eq!(world.refused(Call::ModifyVolume(call.clone())), code, "{call:?}");
    }
}

#[test]
fn unmodified_volume_is_error_by_id_and_absent_by_filter() {
    let mut world = World::instant();
    let (modified, never) = (world.gp3(), world.gp3());
    world.call(grow(&modified, 5)).unwrap();
    let code = described(&mut world, &[&never], vec![]).unwrap_err().code;
    assert_eq!(code, "InvalidVolumeModification.NotFound");
    assert_eq!(described(&mut world, &["vol-00000000"], vec![]).unwrap_err().code, "InvalidVolume.NotFound");
    let both = vec![filter_of("volume-id", &[&modified, &never, "vol-00000000"])];
    let found = described(&mut world, &[], both).unwrap();
    assert_eq!(found.iter().map(|m| m.volume_id.as_str()).collect::<Vec<_>>(), [modified.as_str()]);
    let completed = vec![filter_of("modification-state", &["modifying"])];
    assert_eq!(described(&mut world, &[], completed).unwrap(), []);
}

//! Tests of ModifyVolume and DescribeVolumesModifications.

use super::*;

fn modify(volume: &str, to: &str) -> String {
    format!("ModifyVolume VolumeId={volume} {to}")
}

fn state(world: &mut World, volume: &str) -> String {
    ok!(world, DescribeVolumesModifications, "VolumeId.1={volume}").items.remove(0).state
}

/// The state is `modifying` until the device has grown, then `optimizing`, then `completed`.
#[test]
fn modification_leaves_modifying_only_after_device_has_grown() {
    let mut world = World::realistic();
    let (volume, _) = world.ready();
    let Ok(Reply::ModifyVolume(reply)) = world.apply(&modify(&volume, "Size=9")) else { panic!() };
    assert_eq!((reply.state.as_str(), reply.original.size_gib, reply.target.size_gib), ("modifying", 4, 9));
    assert_eq!(world.volume(&volume).size_gib, 9, "the target shows early");
    let effects = world.sim.take_effects();
    assert_eq!(effects, [Effect::Grow { volume: volume.clone(), gib: 9 }]);
    world.pass(secs(30));
    assert_eq!(state(&mut world, &volume), "modifying");
    world.sim.finish(world.now, &effects[0], &Outcome::Done(None));
    world.settle();
    assert_eq!(state(&mut world, &volume), "optimizing");
    world.pass(secs(60));
    assert_eq!(state(&mut world, &volume), "completed");
}

#[test]
fn failed_modification_keeps_old_size() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.apply(&modify(&volume, "Size=9")).unwrap();
    world.fail_effects("disk full");
    let found = ok!(world, DescribeVolumesModifications, "VolumeId.1={volume}").items.remove(0);
    assert_eq!((found.state.as_str(), found.status_message.as_deref()), ("failed", Some("disk full")));
    assert_eq!(world.volume(&volume).size_gib, 4);
}

/// The limit applies to a rolling period of 24 h.
#[test]
fn fifth_modification_in_24_hours_is_rejected() {
    let mut world = World::realistic();
    let (volume, _) = world.ready();
    for size in 5..9 {
        world.done(&modify(&volume, &format!("Size={size}")));
        world.pass(HOUR);
    }
    let fifth = modify(&volume, "Size=9");
    assert_eq!(world.refused(&fifth), "VolumeModificationRateExceeded");
    world.pass(HOUR * 20 - secs(1));
    assert_eq!(world.refused(&fifth), "VolumeModificationRateExceeded");
    world.pass(secs(1));
    world.done(&fifth);
    world.pass(secs(100));
    assert_eq!(world.refused(&modify(&volume, "Size=10")), "VolumeModificationRateExceeded", "the window rolls");
}

#[test]
fn omitted_iops_and_throughput_are_kept_unless_type_changes() {
    let mut world = World::instant();
    let volume = world.create("Iops=4000 Throughput=500 Size=100").id;
    assert_eq!(world.refused(&modify(&volume, "VolumeType=io2")), "InvalidParameterCombination");
    for (to, volume_type, iops, throughput) in [
        ("Size=200", "gp3", 4000, Some(500)),
        ("VolumeType=io2 Iops=5000", "io2", 5000, None),
        ("VolumeType=gp2", "gp2", 600, None),
        ("Size=1000", "gp2", 3000, None),
        ("VolumeType=gp3", "gp3", 3000, Some(125)),
    ] {
        world.done(&modify(&volume, to));
        let v = world.volume(&volume);
        assert_eq!((v.volume_type.as_str(), v.iops, v.throughput), (volume_type, Some(iops), throughput), "{to}");
    }
}

#[test]
fn invalid_modification_is_rejected() {
    let mut world = World::instant();
    let volume = world.gp3();
    let calls = [
        ("Size=3", "InvalidParameterValue"),
        ("Size=65537", "InvalidParameterValue"),
        ("VolumeType=gp9", "UnknownVolumeType"),
        ("Iops=1", "InvalidParameterValue"),
        ("Throughput=2001", "InvalidParameterValue"),
        ("", "InvalidParameterValue"),
    ];
    world.refuses(calls.map(|(to, code)| (modify(&volume, to), code)));
    world.refuses([(modify("vol-00000000", "Size=9"), "InvalidVolume.NotFound")]);
}

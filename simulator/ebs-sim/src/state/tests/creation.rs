//! Tests of CreateVolume, CopyVolumes and DeleteVolume.

use super::*;

fn delete(volume: &str) -> String {
    format!("DeleteVolume VolumeId={volume}")
}

#[test]
fn each_volume_type_has_its_size_range() {
    let mut world = World::instant();
    for (volume_type, smallest, largest) in [
        ("gp2", 1, 16_384),
        ("gp3", 1, 65_536),
        ("io1 Iops=100", 4, 16_384),
        ("io2 Iops=100", 4, 65_536),
        ("st1", 125, 16_384),
        ("sc1", 125, 16_384),
        ("standard", 1, 1024),
    ] {
        let of = |size: i64| format!("{GP3} VolumeType={volume_type} Size={size}");
        for good in [smallest, largest] {
            world.done(&of(good));
        }
        for bad in [0, -1, smallest - 1, largest + 1, i64::MAX] {
            assert_eq!(world.refused(&of(bad)), "InvalidParameterValue", "{volume_type} of {bad} GiB");
        }
    }
}

/// Without explicit values, EC2's defaults apply.
#[test]
fn iops_and_throughput_are_checked_against_the_volume_type() {
    let mut world = World::instant();
    let (value, combination) = (Err("InvalidParameterValue"), Err("InvalidParameterCombination"));
    for (volume, expected) in [
        ("gp3", Ok((Some(3000), Some(125)))),
        ("gp3 Iops=3000 Throughput=750", Ok((Some(3000), Some(750)))),
        ("gp3 Size=200 Iops=80000 Throughput=2000", Ok((Some(80_000), Some(2000)))),
        ("gp3 Iops=2999", value),
        ("gp3 Iops=3001", value),
        ("gp3 Size=7 Iops=3500", Ok((Some(3500), Some(125)))),
        ("gp3 Size=200 Iops=80001", value),
        ("gp3 Iops=3000 Throughput=751", value),
        ("gp3 Throughput=124", value),
        ("gp3 Size=400 Iops=80000 Throughput=2001", value),
        ("gp2", Ok((Some(100), None))),
        ("gp2 Size=1000", Ok((Some(3000), None))),
        ("gp2 Size=16384", Ok((Some(16_000), None))),
        ("gp2 Iops=100", combination),
        ("gp2 Throughput=125", combination),
        ("io1 Iops=200", Ok((Some(200), None))),
        ("io1 Iops=201", value),
        ("io1 Iops=99", value),
        ("io1", combination),
        ("io2 Iops=4000", Ok((Some(4000), None))),
        ("io2 Iops=4001", value),
        ("io2 Size=4000 Iops=256001", value),
        ("io2 Iops=400 Throughput=125", combination),
        ("st1 Size=125 Iops=100", combination),
        ("standard Size=1", Ok((None, None))),
    ] {
        let volume = format!("VolumeType={volume}");
        match expected {
            Ok(numbers) => {
                let volume = world.create(&volume);
                assert_eq!((volume.iops, volume.throughput), numbers, "{volume:?}");
            }
            Err(code) => assert_eq!(world.refused(&format!("{GP3} {volume}")), code, "{volume}"),
        }
    }
}

#[test]
fn invalid_volume_request_is_rejected_with_the_ec2_code() {
    let calls = [
        ("VolumeType=GP3", "UnknownVolumeType"),
        ("!AvailabilityZone AvailabilityZoneId=usw9-az1", "InvalidZone.NotFound"),
        ("VolumeInitializationRate=200", "InvalidParameterCombination"),
        ("SnapshotId=snap-x", "InvalidSnapshotID.Malformed"),
        ("SnapshotId=vol-1", "InvalidParameterValue"),
    ];
    World::instant().refuses(calls.map(|(more, code)| (format!("{GP3} {more}"), code)));
}

#[test]
fn volume_is_creating_until_its_delay_and_data_copy_end() {
    let mut world = World::realistic();
    let Ok(Reply::CreateVolume(volume)) = world.apply(GP3) else { panic!() };
    assert_eq!(volume.state, "creating");
    let effects = world.sim.take_effects();
    world.pass(secs(60));
    assert_eq!(world.volume(&volume.id).state, "creating", "its data are not there yet");
    world.sim.finish(world.now, &effects[0], &Outcome::Done(None));
    world.settle();
    assert_eq!(world.volume(&volume.id).state, "available");

    let early = world.gp3();
    assert_eq!(world.volume(&early).state, "creating", "its time has not come");
    world.now = world.sim.next_due(world.now).expect("something is to come");
    world.settle();
    assert_eq!(world.volume(&early).state, "available");
    assert_eq!(world.sim.next_due(world.now), None);
}

#[test]
fn volume_whose_data_creation_failed_is_in_error_and_deletable() {
    let mut world = World::instant();
    let Ok(Reply::CreateVolume(volume)) = world.apply(GP3) else { panic!() };
    world.fail_effects("disk full");
    assert_eq!(world.volume(&volume.id).state, "error");
    world.done(&delete(&volume.id));
}

#[test]
fn volume_with_unusable_key_is_accepted_and_vanishes() {
    let mut world = World::instant();
    for bad in [
        "arn:aws:kms:eu-west-1:123456789012:key/nowhere",
        "nonsense",
        "arn:aws:kms:us-west-2:1:key/12345678-1234-1234-1234-123456789012",
        "arn:aws:s3:::bucket",
    ] {
        let volume = world.create(&format!("Encrypted=true KmsKeyId={bad}"));
        assert_eq!(volume.state, "creating");
        assert!(!world.sim.volumes.contains_key(&volume.id), "{bad}");
    }
    for good in [
        "alias/mine",
        "12345678-1234-1234-1234-123456789012",
        "mrk-12345678123412341234123456789012",
        "arn:aws:kms:us-west-2:999999999999:key/12345678-1234-1234-1234-123456789012",
        "arn:aws:kms:us-west-2:123456789012:alias/mine",
    ] {
        let id = world.create(&format!("Encrypted=true KmsKeyId={good}")).id;
        assert!(world.volume(&id).kms_key_id.unwrap().starts_with("arn:aws:kms:us-west-2:"), "{good}");
    }
}

#[test]
fn deletion_takes_time_and_removes_volume_and_data() {
    let mut world = World::realistic();
    let volume = world.gp3();
    assert_eq!(world.refused(&delete(&volume)), "IncorrectState", "it is still being made");
    world.pass(secs(10));
    world.done(&delete(&volume));
    assert_eq!(world.volume(&volume).state, "deleting");
    assert_eq!(world.refused(&delete(&volume)), "InvalidVolume.NotFound");
    world.now += secs(10);
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), [Effect::DeleteBacking { volume: volume.clone() }]);
    assert_eq!(world.refused(&delete(&volume)), "InvalidVolume.NotFound");
}

#[test]
fn restored_volume_has_min_size_and_encryption_of_snapshot() {
    let mut world = World::instant();
    let source = world.create("Size=8 Encrypted=true");
    let snapshot = world.snapshot(&source.id);
    assert_eq!(world.refused(&format!("{GP3} SnapshotId={snapshot} Size=7")), "InvalidParameterValue");
    let restored = world.create(&format!("SnapshotId={snapshot} !Size"));
    assert_eq!((restored.size_gib, restored.encrypted), (8, true));
    assert_eq!((restored.snapshot_id.as_ref(), restored.kms_key_id), (Some(&snapshot), source.kms_key_id));
    assert_eq!(world.create(&format!("SnapshotId={snapshot} Size=20")).size_gib, 20);
}

#[test]
fn copied_volume_has_zone_and_minimum_size_of_its_source() {
    let mut world = World::instant();
    let source = world.gp3();
    world.refuses([
        (format!("CopyVolumes SourceVolumeId={source} Size=3"), "InvalidParameterValue"),
        ("CopyVolumes SourceVolumeId=vol-00000000".to_owned(), "InvalidVolume.NotFound"),
    ]);
    let reply = world.apply(&format!("CopyVolumes SourceVolumeId={source} Size=5"));
    let Ok(Reply::CopyVolumes(copies)) = reply else { panic!("{reply:?}") };
    let [one] = copies.as_slice() else { panic!("{copies:?}") };
    assert_eq!((one.zone.as_str(), one.size_gib, one.source_volume_id.as_ref()), ("us-west-2a", 5, Some(&source)));
    let effects = world.sim.take_effects();
    assert_eq!(effects, [Effect::CopyVolume { source: source.clone(), volume: one.id.clone(), gib: 5 }]);
    assert!(effects[0].holds_reply(), "its data are those of the time of the call");
}

/// Simulators share /dev, so ids must be unique across them.
#[test]
fn ids_have_17_hex_digits_and_never_repeat() {
    let mut world = World::instant();
    let ids: std::collections::BTreeSet<String> = (0..100).map(|_| world.gp3()).collect();
    assert_eq!(ids.len(), 100);
    for id in ids {
        let digits = id.strip_prefix("vol-").unwrap();
        assert!(digits.len() == 17 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    }
}

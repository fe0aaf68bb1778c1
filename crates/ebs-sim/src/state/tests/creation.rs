//! CreateVolume, CopyVolumes and DeleteVolume.

use super::*;
use crate::api::{CopyVolumes, DeleteVolume};

fn delete(volume: &str) -> Call {
    Call::DeleteVolume(DeleteVolume { volume_id: volume.to_owned(), dry_run: false })
}

fn of_type(volume_type: &str, size: i64) -> CreateVolume {
    CreateVolume { size: Some(size), volume_type: Some(volume_type.to_owned()), ..gp3() }
}

#[test]
fn each_type_has_its_size_range() {
    let mut world = World::instant();
    for (volume_type, iops, smallest, largest) in [
        ("gp2", None, 1, 16_384),
        ("gp3", None, 1, 65_536),
        ("io1", Some(100), 4, 16_384),
        ("io2", Some(100), 4, 65_536),
        ("st1", None, 125, 16_384),
        ("sc1", None, 125, 16_384),
        ("standard", None, 1, 1024),
    ] {
        let of = |size| Call::CreateVolume(CreateVolume { iops, ..of_type(volume_type, size) });
        for good in [smallest, largest] {
            assert!(world.call(of(good)).is_ok(), "{volume_type} of {good} GiB");
        }
        for bad in [0, -1, smallest - 1, largest + 1, i64::MAX] {
            assert_eq!(world.refused(of(bad)), "InvalidParameterValue", "{volume_type} of {bad} GiB");
        }
    }
}

/// Defaults are EC2's.
#[test]
fn iops_and_throughput_have_ranges_and_ratios_of_type() {
    let mut world = World::instant();
    for (volume_type, size, iops, throughput, expected) in [
        ("gp3", 4, None, None, Ok((Some(3000), Some(125)))),
        ("gp3", 4, Some(3000), Some(750), Ok((Some(3000), Some(750)))),
        ("gp3", 200, Some(80_000), Some(2000), Ok((Some(80_000), Some(2000)))),
        ("gp3", 4, Some(2999), None, Err("InvalidParameterValue")),
        ("gp3", 4, Some(3001), None, Err("InvalidParameterValue")),
        ("gp3", 7, Some(3500), None, Ok((Some(3500), Some(125)))),
        ("gp3", 200, Some(80_001), None, Err("InvalidParameterValue")),
        ("gp3", 4, Some(3000), Some(751), Err("InvalidParameterValue")),
        ("gp3", 4, None, Some(124), Err("InvalidParameterValue")),
        ("gp3", 400, Some(80_000), Some(2001), Err("InvalidParameterValue")),
        ("gp2", 4, None, None, Ok((Some(100), None))),
        ("gp2", 1000, None, None, Ok((Some(3000), None))),
        ("gp2", 16_384, None, None, Ok((Some(16_000), None))),
        ("gp2", 4, Some(100), None, Err("InvalidParameterCombination")),
        ("gp2", 4, None, Some(125), Err("InvalidParameterCombination")),
        ("io1", 4, Some(200), None, Ok((Some(200), None))),
        ("io1", 4, Some(201), None, Err("InvalidParameterValue")),
        ("io1", 4, Some(99), None, Err("InvalidParameterValue")),
        ("io1", 4, None, None, Err("InvalidParameterCombination")),
        ("io2", 4, Some(4000), None, Ok((Some(4000), None))),
        ("io2", 4, Some(4001), None, Err("InvalidParameterValue")),
        ("io2", 4000, Some(256_001), None, Err("InvalidParameterValue")),
        ("io2", 4, Some(400), Some(125), Err("InvalidParameterCombination")),
        ("st1", 125, Some(100), None, Err("InvalidParameterCombination")),
        ("standard", 1, None, None, Ok((None, None))),
    ] {
        let call = CreateVolume { iops, throughput, ..of_type(volume_type, size) };
        let what = format!("{volume_type} {size} GiB {iops:?} {throughput:?}");
        match expected {
            Ok(numbers) => {
                let volume = world.create(call);
                assert_eq!((volume.iops, volume.throughput), numbers, "{what}");
            }
            Err(code) => assert_eq!(world.refused(Call::CreateVolume(call)), code, "{what}"),
        }
    }
}

/// For the IOPS probe, EC2's text has the maximum of the type, or reports that the type has no such parameter.
#[test]
fn dry_run_with_huge_iops_names_maximum_of_type() {
    let mut world = World::instant();
    for (volume_type, text) in [
        ("gp3", "Volume iops of 2147483647 is too high; maximum is 80000."),
        ("io1", "Volume iops of 2147483647 is too high; maximum is 64000."),
        ("io2", "Volume iops of 2147483647 is too high; maximum is 256000."),
        ("gp2", "The parameter iops is not supported for gp2 volumes."),
        // The size is also too small for the type, but this error comes second.
        ("st1", "The parameter iops is not supported for st1 volumes."),
    ] {
        let call = CreateVolume { iops: Some(2_147_483_647), dry_run: true, ..of_type(volume_type, 4) };
        assert_eq!(world.call(Call::CreateVolume(call)).unwrap_err().message, text);
    }
}

/// The code is DryRunOperation (412).
#[test]
fn dry_run_reports_success_and_changes_nothing() {
    let mut world = World::instant();
    let volume = world.gp3();
    let instance = world.instance(0);
    let volume_id = || volume.clone();
    for call in [
        Call::CreateVolume(CreateVolume { dry_run: true, client_token: Some("t".into()), ..gp3() }),
        Call::CopyVolumes(CopyVolumes { source_volume_id: volume_id(), dry_run: true, ..Default::default() }),
        Call::DeleteVolume(DeleteVolume { volume_id: volume_id(), dry_run: true }),
        Call::AttachVolume(AttachVolume {
            volume_id: volume_id(),
            instance_id: instance,
            device: Some("/dev/xvdaa".into()),
            dry_run: true,
            ..Default::default()
        }),
        Call::CreateSnapshot(CreateSnapshot { volume_id: volume_id(), dry_run: true, ..Default::default() }),
        Call::DescribeVolumes(DescribeVolumes { dry_run: true, ..Default::default() }),
    ] {
        let status = world.call(call.clone()).unwrap_err().status;
        assert_eq!((world.refused(call).as_str(), status), ("DryRunOperation", 412));
    }
}

#[test]
fn invalid_volume_is_rejected_with_code_of_ec2() {
    let mut world = World::instant();
    for (call, code) in [
        (of_type("gp9", 4), "UnknownVolumeType"),
        (of_type("GP3", 4), "UnknownVolumeType"),
        (CreateVolume { availability_zone: Some("us-west-2x".into()), ..gp3() }, "InvalidZone.NotFound"),
        (
            CreateVolume { availability_zone: None, availability_zone_id: Some("usw9-az1".into()), ..gp3() },
            "InvalidZone.NotFound",
        ),
        (CreateVolume { availability_zone: None, ..gp3() }, "MissingParameter"),
        (CreateVolume { availability_zone_id: Some("usw2-az1".into()), ..gp3() }, "InvalidParameterCombination"),
        (CreateVolume { size: None, ..gp3() }, "MissingParameter"),
        (CreateVolume { multi_attach_enabled: Some(true), ..gp3() }, "InvalidParameterCombination"),
        (CreateVolume { kms_key_id: Some("alias/k".into()), ..gp3() }, "InvalidParameterDependency"),
        (CreateVolume { outpost_arn: Some("arn:aws:outposts:x".into()), ..gp3() }, "InvalidParameterValue"),
        (CreateVolume { volume_initialization_rate: Some(200), ..gp3() }, "InvalidParameterCombination"),
        (CreateVolume { snapshot_id: Some("snap-00000000000000000".into()), ..gp3() }, "InvalidSnapshot.NotFound"),
        (CreateVolume { snapshot_id: Some("snap-x".into()), ..gp3() }, "InvalidSnapshotID.Malformed"),
        (CreateVolume { snapshot_id: Some("vol-1".into()), ..gp3() }, "InvalidParameterValue"),
        (CreateVolume { client_token: Some("t".repeat(65)), ..gp3() }, "InvalidParameterValue"),
    ] {
        assert_eq!(world.refused(Call::CreateVolume(call.clone())), code, "{call:?}");
    }
}

#[test]
fn volume_is_creating_until_time_and_data_are_complete() {
    let mut world = World::realistic();
    let reply = world.apply(Call::CreateVolume(gp3()));
    let Ok(Reply::CreateVolume(volume)) = reply else { panic!("{reply:?}") };
    assert_eq!(volume.state, "creating");
    let effects = world.sim.take_effects();
    world.pass(Duration::from_secs(60));
    assert_eq!(world.volume(&volume.id).state, "creating", "its data are not there yet");
    world.sim.finish(world.now, &effects[0], &Outcome::Done(None));
    world.settle();
    assert_eq!(world.volume(&volume.id).state, "available");

    let early = world.gp3();
    assert_eq!(world.volume(&early).state, "creating", "its time has not come");
    let due = world.sim.next_due(world.now).expect("something is to come");
    world.now = due;
    world.settle();
    assert_eq!(world.volume(&early).state, "available");
    assert_eq!(world.sim.next_due(world.now), None);
}

#[test]
fn volume_without_data_is_in_error_and_deletable() {
    let mut world = World::instant();
    let Ok(Reply::CreateVolume(volume)) = world.apply(Call::CreateVolume(gp3())) else { panic!() };
    for effect in world.sim.take_effects() {
        world.sim.finish(world.now, &effect, &Outcome::Failed("disk full".into()));
    }
    world.settle();
    assert_eq!(world.volume(&volume.id).state, "error");
    assert_eq!(world.call(delete(&volume.id)), Ok(Reply::DeleteVolume));
}

#[test]
fn volume_with_unusable_key_is_accepted_and_vanishes() {
    let mut world = World::instant();
    let with = |key: &str| CreateVolume { encrypted: Some(true), kms_key_id: Some(key.to_owned()), ..gp3() };
    let volume = world.create(with("arn:aws:kms:eu-west-1:123456789012:key/nowhere"));
    assert_eq!(volume.state, "creating");
    assert!(!world.sim.volumes.contains_key(&volume.id));
    for bad in ["nonsense", "arn:aws:kms:us-west-2:1:key/12345678-1234-1234-1234-123456789012", "arn:aws:s3:::bucket"] {
        let volume = world.create(with(bad));
        assert!(!world.sim.volumes.contains_key(&volume.id), "{bad}");
    }
    for good in [
        "alias/mine",
        "12345678-1234-1234-1234-123456789012",
        "mrk-12345678123412341234123456789012",
        "arn:aws:kms:us-west-2:999999999999:key/12345678-1234-1234-1234-123456789012",
        "arn:aws:kms:us-west-2:123456789012:alias/mine",
    ] {
        let volume = world.create(with(good));
        assert!(world.volume(&volume.id).kms_key_id.unwrap().starts_with("arn:aws:kms:us-west-2:"), "{good}");
    }
}

#[test]
fn deletion_takes_time_and_removes_volume_and_data() {
    let mut world = World::realistic();
    let volume = world.gp3();
    assert_eq!(world.refused(delete(&volume)), "IncorrectState", "it is still being made");
    world.pass(Duration::from_secs(10));
    assert_eq!(world.call(delete(&volume)), Ok(Reply::DeleteVolume));
    assert_eq!(world.volume(&volume).state, "deleting");
    assert_eq!(world.refused(delete(&volume)), "InvalidVolume.NotFound");
    world.now += Duration::from_secs(10);
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), [Effect::DeleteBacking { volume: volume.clone() }]);
    assert_eq!(world.refused(delete(&volume)), "InvalidVolume.NotFound");
}

/// The code is VolumeInUse.
#[test]
fn deleting_attached_volume_is_rejected() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.attach(&volume, "/dev/xvdaa");
    assert_eq!(world.refused(delete(&volume)), "VolumeInUse");
}

#[test]
fn invalid_volume_id_is_malformed() {
    let mut world = World::instant();
    for (id, code) in [
        ("", "MissingParameter"),
        ("nonsense", "InvalidParameterValue"),
        ("snap-0123456789abcdef0", "InvalidParameterValue"),
        ("vol-xyz", "InvalidVolumeID.Malformed"),
        ("vol-0123456789ABCDEF0", "InvalidVolumeID.Malformed"),
        ("vol-0123456789abcdef0", "InvalidVolume.NotFound"),
        ("vol-12345678", "InvalidVolume.NotFound"),
    ] {
        assert_eq!(world.refused(delete(id)), code, "{id:?}");
    }
}

#[test]
fn restored_volume_has_min_size_and_encryption_of_snapshot() {
    let mut world = World::instant();
    let source = world.create(CreateVolume { size: Some(8), encrypted: Some(true), ..gp3() });
    let snapshot = world.snapshot(&source.id);
    let from = |size| CreateVolume { snapshot_id: Some(snapshot.clone()), size, ..gp3() };
    assert_eq!(world.refused(Call::CreateVolume(from(Some(7)))), "InvalidParameterValue");
    let restored = world.create(from(None));
    assert_eq!((restored.size_gib, restored.encrypted), (8, true));
    assert_eq!(restored.snapshot_id.as_ref(), Some(&snapshot));
    assert_eq!(restored.kms_key_id, source.kms_key_id);
    assert_eq!(world.create(from(Some(20))).size_gib, 20);
}

#[test]
fn pending_snapshot_cannot_be_restored() {
    let mut world = World::realistic();
    let source = world.gp3();
    world.pass(Duration::from_secs(10));
    let snapshot = world.snapshot(&source);
    let from = CreateVolume { snapshot_id: Some(snapshot), ..gp3() };
    assert_eq!(world.refused(Call::CreateVolume(from.clone())), "IncorrectState");
    world.pass(Duration::from_secs(60));
    assert!(world.call(Call::CreateVolume(from)).is_ok());
}

#[test]
fn copy_has_zone_and_minimum_size_of_source() {
    let mut world = World::instant();
    let source = world.gp3();
    let copy = |size| Call::CopyVolumes(CopyVolumes { source_volume_id: source.clone(), size, ..Default::default() });
    assert_eq!(world.refused(copy(Some(3))), "InvalidParameterValue");
    let Ok(Reply::CopyVolumes(copies)) = world.apply(copy(Some(5))) else { panic!() };
    let [one] = copies.as_slice() else { panic!("{copies:?}") };
    assert_eq!((one.zone.as_str(), one.size_gib, one.source_volume_id.as_ref()), ("us-west-2a", 5, Some(&source)));
    let effects = world.sim.take_effects();
    assert_eq!(effects, [Effect::CopyVolume { source: source.clone(), volume: one.id.clone(), gib: 5 }]);
    assert!(effects[0].holds_reply(), "its data are those of the time of the call");
    let missing = CopyVolumes { source_volume_id: "vol-00000000".into(), ..Default::default() };
    assert_eq!(world.refused(Call::CopyVolumes(missing)), "InvalidVolume.NotFound");
}

#[test]
fn volumes_over_the_quota_are_rejected() {
    let mut world = World::of(EngineConfig { max_volumes: 4, ..EngineConfig::default() });
    world.gp3();
    world.gp3();
    assert_eq!(world.refused(Call::CreateVolume(gp3())), "VolumeLimitExceeded", "two roots and two others exist");
}

/// Simulators share /dev.
#[test]
fn ids_have_17_hex_digits_and_never_repeat() {
    let mut world = World::instant();
    let ids: std::collections::BTreeSet<String> = (0..100).map(|_| world.gp3()).collect();
    assert_eq!(ids.len(), 100);
    for id in ids {
        let digits = id.strip_prefix("vol-").unwrap();
        assert_eq!(digits.len(), 17);
        assert!(digits.bytes().all(|b| b.is_ascii_hexdigit()));
    }
}

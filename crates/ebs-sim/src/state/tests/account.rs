//! Tests of account settings: encryption, keys, quotas, Outposts, missing features of zones.

use super::*;
use crate::api::{CopyVolumes, ModifyVolume};
use crate::config::{AccountSettings, Quotas};

fn world(account: AccountSettings) -> World {
    World::of(EngineConfig { account, ..EngineConfig::default() })
}

fn with_quotas(quotas: Quotas) -> World {
    world(AccountSettings { quotas, ..AccountSettings::default() })
}

fn of_type(volume_type: &str, gib: i64, iops: Option<i64>) -> CreateVolume {
    CreateVolume { volume_type: Some(volume_type.into()), size: Some(gib), iops, ..gp3() }
}

fn of(name: &str, number: u64) -> std::collections::BTreeMap<String, u64> {
    [(name.to_owned(), number)].into()
}

/// The default key is used unless the request names another.
#[test]
fn default_encryption_encrypts_every_volume() {
    let key = "12345678-1234-1234-1234-123456789012";
    let account =
        AccountSettings { encrypt_by_default: true, default_kms_key: Some(key.into()), ..AccountSettings::default() };
    let mut world = world(account);
    for encrypted in [None, Some(false), Some(true)] {
        let volume = world.create(CreateVolume { encrypted, ..gp3() });
        assert!(volume.encrypted, "{encrypted:?}");
        assert!(volume.kms_key_id.unwrap().ends_with(key));
    }
    let named = CreateVolume { kms_key_id: Some("alias/mine".into()), ..gp3() };
    assert!(!world.create(named).kms_key_id.unwrap().ends_with(key));
}

/// The volume is accepted first. The snapshot's key counts, too.
#[test]
fn volume_with_unusable_key_of_its_own_or_snapshot_vanishes() {
    let account = AccountSettings { unusable_kms_keys: vec!["alias/gone".into()], ..AccountSettings::default() };
    let good = "alias/good";
    let mut world = world(AccountSettings::default());
    let with = |key: &str| CreateVolume { encrypted: Some(true), kms_key_id: Some(key.into()), ..gp3() };
    let source = world.create(with("alias/gone")).id;
    let snapshot = world.snapshot(&source);
    world.config.account = account.clone();
    world.sim.policy.account = account;
    for call in [
        with("alias/gone"),
        with("arn:aws:kms:us-west-2:123456789012:alias/gone"),
        CreateVolume { snapshot_id: Some(snapshot.clone()), ..gp3() },
        CreateVolume { snapshot_id: Some(snapshot.clone()), ..with(good) },
    ] {
        let volume = world.create(call.clone());
        assert!(!world.sim.volumes.contains_key(&volume.id), "{call:?}");
    }
    assert!(world.create(with(good)).encrypted);
    let copy = CopyVolumes { source_volume_id: source, ..Default::default() };
    let Ok(Reply::CopyVolumes(copies)) = world.call(Call::CopyVolumes(copy)) else { panic!() };
    assert!(!world.sim.volumes.contains_key(&copies[0].id));
}

/// The quotas apply to creation and modification.
#[test]
fn storage_and_iops_of_type_have_quotas() {
    let mut world = with_quotas(Quotas { storage_tib: of("st1", 1), iops: of("io2", 1000), ..Quotas::default() });
    world.create(of_type("st1", 1000, None));
    assert_eq!(world.refused(Call::CreateVolume(of_type("st1", 125, None))), "VolumeLimitExceeded");
    world.create(of_type("sc1", 1000, None));
    let id = world.create(of_type("io2", 10, Some(900))).id;
    assert_eq!(world.refused(Call::CreateVolume(of_type("io2", 10, Some(101)))), "MaxIOPSLimitExceeded");
    world.create(of_type("io2", 10, Some(100)));
    let more = ModifyVolume { volume_id: id, iops: Some(901), ..Default::default() };
    assert_eq!(world.refused(Call::ModifyVolume(more)), "MaxIOPSLimitExceeded");
}

#[test]
fn concurrent_modifications_and_copies_have_quotas() {
    let quotas = Quotas { modification_tib: of("gp3", 1), concurrent_copies: Some(1), ..Quotas::default() };
    let account = AccountSettings { quotas, ..AccountSettings::default() };
    let timing = Timing::Realistic;
    let mut world = World::of(EngineConfig { account, timing, ..EngineConfig::default() });
    let (first, second) = (world.gp3(), world.gp3());
    world.pass(Duration::from_secs(3));
    let grow = |id: &str, gib| {
        Call::ModifyVolume(ModifyVolume { volume_id: id.to_owned(), size: Some(gib), ..Default::default() })
    };
    world.call(grow(&first, 1000)).unwrap();
    assert_eq!(world.refused(grow(&second, 25)), "VolumeModificationSizeLimitExceeded");
    world.pass(Duration::from_mins(2));
    world.call(grow(&second, 25)).unwrap();
    let copy = || Call::CopyVolumes(CopyVolumes { source_volume_id: first.clone(), ..Default::default() });
    world.call(copy()).unwrap();
    assert_eq!(world.refused(copy()), "VolumeLimitExceeded");
    world.pass(Duration::from_secs(3));
    world.call(copy()).unwrap();
}

/// The ARN is validated, and a local snapshot belongs to its Outpost.
#[test]
fn outpost_arn_is_kept_on_volume_and_snapshot() {
    let mut world = World::instant();
    let arn = "arn:aws:outposts:us-west-2:123456789012:outpost/op-0123456789abcdef0";
    let other = arn.replace("def0", "def1");
    let volume = world.create(CreateVolume { outpost_arn: Some(arn.into()), ..gp3() });
    assert_eq!(volume.outpost_arn.as_deref(), Some(arn));
    let take = |outpost: &str| {
        let outpost_arn = Some(outpost.to_owned());
        Call::CreateSnapshot(CreateSnapshot { volume_id: volume.id.clone(), outpost_arn, ..Default::default() })
    };
    assert_eq!(world.refused(take(&other)), "InvalidParameterCombination");
    let Ok(Reply::CreateSnapshot(local)) = world.call(take(arn)) else { panic!() };
    assert_eq!(local.outpost_arn.as_deref(), Some(arn));
    let restore = |outpost: Option<&str>| CreateVolume {
        snapshot_id: Some(local.id.clone()),
        outpost_arn: outpost.map(str::to_owned),
        ..gp3()
    };
    for elsewhere in [None, Some(other.as_str())] {
        assert_eq!(world.refused(Call::CreateVolume(restore(elsewhere))), "InvalidParameterCombination");
    }
    assert_eq!(world.create(restore(Some(arn))).outpost_arn.as_deref(), Some(arn));
    for bad in ["op-0123456789abcdef0", &arn.replace("us-west-2", "eu-west-1"), &arn[..arn.len() - 1]] {
        let call = CreateVolume { outpost_arn: Some(bad.to_owned()), ..gp3() };
        assert_eq!(world.refused(Call::CreateVolume(call)), "InvalidParameterValue", "{bad}");
    }
}

#[test]
fn zone_may_lack_volume_types() {
    let missing_volume_types = [("us-west-2b".to_owned(), vec!["gp3".to_owned()])].into();
    let mut world = world(AccountSettings { missing_volume_types, ..AccountSettings::default() });
    let at = |zone: &str, call: CreateVolume| CreateVolume { availability_zone: Some(zone.into()), ..call };
    assert_eq!(world.refused(Call::CreateVolume(at("us-west-2b", gp3()))), "VolumeTypeNotAvailableInZone");
    world.create(at("us-west-2b", of_type("gp2", 1, None)));
    let in_local_zone = at("us-west-2-lax-1a", of_type("io2", 4, Some(100)));
    assert_eq!(world.refused(Call::CreateVolume(in_local_zone)), "VolumeTypeNotAvailableInZone");
    world.create(at("us-west-2-lax-1a", gp3()));
}

#[test]
fn multi_attach_needs_nitro_and_io1_is_not_modifiable() {
    let mut world = World::of(EngineConfig { instance_type: "t2.micro".into(), ..EngineConfig::default() });
    let shared = |volume_type| CreateVolume { multi_attach_enabled: Some(true), ..of_type(volume_type, 4, Some(100)) };
    let volume = world.create(shared("io2")).id;
    let instance = world.instance(0);
    assert_eq!(world.refused(attach(&volume, &instance, "/dev/xvdb")), "UnsupportedOperation");
    let io1 = world.create(shared("io1")).id;
    let plain = world.create(of_type("io1", 4, Some(100))).id;
    let modify = |volume_id: String, size, multi_attach_enabled| {
        Call::ModifyVolume(ModifyVolume { volume_id, size, multi_attach_enabled, ..Default::default() })
    };
    assert_eq!(world.refused(modify(io1, Some(8), None)), "UnsupportedOperation");
    assert_eq!(world.refused(modify(plain, None, Some(true))), "UnsupportedOperation");
    assert!(world.call(modify(volume, None, Some(false))).is_ok());
}

//! Tests of account settings: encryption, keys, quotas, Outposts, and missing features of zones.

use super::*;

fn of(name: &str, number: u64) -> std::collections::BTreeMap<String, u64> {
    [(name.to_owned(), number)].into()
}

/// Volumes have the default key unless the request names another key.
#[test]
fn default_encryption_encrypts_every_volume() {
    let key = "12345678-1234-1234-1234-123456789012";
    let mut world = World::with_account(AccountSettings {
        encrypt_by_default: true,
        default_kms_key: Some(key.into()),
        ..AccountSettings::default()
    });
    for encrypted in ["", "Encrypted=false", "Encrypted=true"] {
        let volume = world.create(encrypted);
        assert!(volume.encrypted, "{encrypted:?}");
        assert!(volume.kms_key_id.unwrap().ends_with(key));
    }
    assert!(!world.create("KmsKeyId=alias/mine").kms_key_id.unwrap().ends_with(key));
}

/// EC2 accepts the volume first. An unusable key of the snapshot has the same effect.
#[test]
fn volume_with_unusable_key_of_its_own_or_snapshot_vanishes() {
    let mut world = World::instant();
    let source = world.create("Encrypted=true KmsKeyId=alias/gone").id;
    let snapshot = world.snapshot(&source);
    world.sim.policy.account.unusable_kms_keys = vec!["alias/gone".into()];
    for key in [
        "Encrypted=true KmsKeyId=alias/gone".to_owned(),
        "Encrypted=true KmsKeyId=arn:aws:kms:us-west-2:123456789012:alias/gone".to_owned(),
        format!("SnapshotId={snapshot}"),
        format!("SnapshotId={snapshot} Encrypted=true KmsKeyId=alias/good"),
    ] {
        let volume = world.create(&key);
        assert!(!world.sim.volumes.contains_key(&volume.id), "{key}");
    }
    assert!(world.create("Encrypted=true KmsKeyId=alias/good").encrypted);
    let copies = ok!(world, CopyVolumes, "SourceVolumeId={source}");
    assert!(!world.sim.volumes.contains_key(&copies[0].id));
}

/// The quotas apply to creation and to modification.
#[test]
fn storage_and_iops_quotas_apply_per_volume_type() {
    let quotas = Quotas { storage_tib: of("st1", 1), iops: of("io2", 1000), ..Quotas::default() };
    let mut world = World::with_quotas(quotas);
    world.create("VolumeType=st1 Size=1000");
    world.create("VolumeType=sc1 Size=1000");
    let id = world.create("VolumeType=io2 Size=10 Iops=900").id;
    world.refuses([
        (format!("{GP3} VolumeType=st1 Size=125"), "VolumeLimitExceeded"),
        (format!("{GP3} VolumeType=io2 Size=10 Iops=101"), "MaxIOPSLimitExceeded"),
    ]);
    world.create("VolumeType=io2 Size=10 Iops=100");
    world.refuses([(format!("ModifyVolume VolumeId={id} Iops=901"), "MaxIOPSLimitExceeded")]);
}

#[test]
fn quotas_limit_concurrent_modifications_and_copies() {
    let quotas = Quotas { modification_tib: of("gp3", 1), concurrent_copies: Some(1), ..Quotas::default() };
    let mut world = World::realistic();
    world.sim.policy.account.quotas = quotas;
    let (first, second) = (world.gp3(), world.gp3());
    world.pass(secs(3));
    world.done(&format!("ModifyVolume VolumeId={first} Size=1000"));
    let grow = format!("ModifyVolume VolumeId={second} Size=25");
    assert_eq!(world.refused(&grow), "VolumeModificationSizeLimitExceeded");
    world.pass(secs(120));
    world.done(&grow);
    let copy = format!("CopyVolumes SourceVolumeId={first}");
    world.done(&copy);
    assert_eq!(world.refused(&copy), "VolumeLimitExceeded");
    world.pass(secs(3));
    world.done(&copy);
}

/// EC2 validates the ARN. A local snapshot belongs to its Outpost.
#[test]
fn outpost_arn_is_kept_on_volume_and_snapshot() {
    let mut world = World::instant();
    let arn = "arn:aws:outposts:us-west-2:123456789012:outpost/op-0123456789abcdef0";
    let other = arn.replace("def0", "def1");
    let volume = world.create(&format!("OutpostArn={arn}"));
    assert_eq!(volume.outpost_arn.as_deref(), Some(arn));
    let local = ok!(world, CreateSnapshot, "VolumeId={} OutpostArn={arn}", volume.id);
    assert_eq!(local.outpost_arn.as_deref(), Some(arn));
    let restore = format!("SnapshotId={}", local.id);
    assert_eq!(world.create(&format!("{restore} OutpostArn={arn}")).outpost_arn.as_deref(), Some(arn));
    world.refuses([
        (format!("CreateSnapshot VolumeId={} OutpostArn={other}", volume.id), "InvalidParameterCombination"),
        (format!("{GP3} {restore}"), "InvalidParameterCombination"),
        (format!("{GP3} {restore} OutpostArn={other}"), "InvalidParameterCombination"),
        (format!("{GP3} OutpostArn=op-0123456789abcdef0"), "InvalidParameterValue"),
        (format!("{GP3} OutpostArn={}", arn.replace("us-west-2", "eu-west-1")), "InvalidParameterValue"),
        (format!("{GP3} OutpostArn={}", &arn[..arn.len() - 1]), "InvalidParameterValue"),
    ]);
}

#[test]
fn volume_type_missing_in_a_zone_is_refused() {
    let missing_volume_types = [("us-west-2b".to_owned(), vec!["gp3".to_owned()])].into();
    let mut world = World::with_account(AccountSettings { missing_volume_types, ..AccountSettings::default() });
    let local = "AvailabilityZone=us-west-2-lax-1a";
    world.refuses([
        (format!("{GP3} AvailabilityZone=us-west-2b"), "VolumeTypeNotAvailableInZone"),
        (format!("{GP3} {local} VolumeType=io2 Iops=100"), "VolumeTypeNotAvailableInZone"),
    ]);
    world.create("AvailabilityZone=us-west-2b VolumeType=gp2");
    world.create(local);
}

#[test]
fn multi_attach_needs_nitro_and_io1_is_not_modifiable() {
    let mut world = World::of(EngineConfig { instance_type: "t2.micro".into(), ..EngineConfig::default() });
    let io2 = world.create("VolumeType=io2 Iops=100 MultiAttachEnabled=true").id;
    let io1 = world.create("VolumeType=io1 Iops=100 MultiAttachEnabled=true").id;
    let plain = world.create("VolumeType=io1 Iops=100").id;
    let instance = world.instance(0);
    world.refuses([
        (attach(&io2, &instance, "/dev/xvdb"), "UnsupportedOperation"),
        (format!("ModifyVolume VolumeId={io1} Size=8"), "UnsupportedOperation"),
        (format!("ModifyVolume VolumeId={plain} MultiAttachEnabled=true"), "UnsupportedOperation"),
    ]);
    world.done(&format!("ModifyVolume VolumeId={io2} MultiAttachEnabled=false"));
}

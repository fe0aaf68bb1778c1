use std::num::NonZeroU32;

use ebs_cloud::{Lock, LockEnd, LockMode};
use ebs_ec2::VolumeType;
use ebs_mounter::SizeWord;
use proptest::prelude::*;

use super::*;
use crate::capability::Access;
use crate::context::{FormatKey, VolumeContext};

fn map(entries: &[(&str, &str)]) -> HashMap<String, String> {
    entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn volume(entries: &[(&str, &str)]) -> Result<VolumeParameters, ParameterError> {
    VolumeParameters::parse(&map(entries))
}

#[test]
fn parameter_keys_are_case_insensitive() {
    let got = volume(&[
        ("TYPE", "IO2"),
        ("iopsPerGB", "10"),
        ("allowAutoIOPSPerGBIncrease", "true"),
        ("Throughput", "250"),
        ("volumeInitializationRate", "200"),
        ("ENCRYPTED", "true"),
        ("kmsKeyId", "arn:aws:kms:x"),
        ("inodeSize", "512"),
        ("ext4BigAlloc", "true"),
        ("Csi.Storage.K8s.Io/Pvc/Name", "data"),
        ("fsType", "anything"),
        ("blockExpress", "whatever"),
        ("formatBlankRestore", "true"),
    ])
    .expect("understood");
    assert_eq!(got.volume_type, Some(VolumeType::Io2));
    assert_eq!((got.iops_per_gib, got.throughput, got.initialization_rate), [10, 250, 200].map(NonZeroU32::new).into());
    assert_eq!((got.encrypted, got.kms_key_id.as_deref()), (Some(true), Some("arn:aws:kms:x")));
    assert_eq!(got.format.inode_size, SizeWord::parse("512").expect("a size"));
    assert!(got.raise_iops_to_min && got.format.bigalloc && got.format_blank_restore);
    assert_eq!(got.claim.pvc_name, "data");
}

#[test]
fn two_spellings_of_one_key_are_refused() {
    let error = volume(&[("iops", "1"), ("IOPS", "1")]).expect_err("which one?");
    assert_eq!(error, ParameterError::Twice { first: "IOPS".to_owned(), second: "iops".to_owned() });
}

/// The unknown keys include `csi.storage.k8s.io/fstype`, and `tagSpecification` in another case.
#[test]
fn unknown_parameter_key_is_refused() {
    for key in ["tipe", "csi.storage.k8s.io/fstype", "tagspecification_1", "tagDeletion_1"] {
        assert!(matches!(volume(&[(key, "x=y")]), Err(ParameterError::Unknown { .. })), "{key}");
    }
}

/// The driver passes an unknown type to EC2 with a warning, and does not check its numbers.
#[test]
fn unknown_volume_type_is_kept_and_known_one_ignores_case() {
    let read = |text: &str| volume(&[("type", text)]).expect("understood").volume_type;
    assert_eq!(read("gp9"), Some(VolumeType::Other("gp9".to_owned())));
    assert_eq!(read("GP3"), Some(VolumeType::Gp3));
    assert_eq!(read(""), None);
    let mutable = MutableParameters::parse(&map(&[("type", "gp9")]));
    assert!(mutable.is_ok(), "{mutable:?}");
}

/// An empty value means unset.
#[test]
fn booleans_accept_any_go_spelling_and_nothing_else() {
    for text in ["1", "t", "T", "true", "TRUE", "True"] {
        assert_eq!(volume(&[("encrypted", text)]).expect("true").encrypted, Some(true), "{text}");
    }
    for text in ["0", "f", "F", "false", "FALSE", "False"] {
        assert_eq!(volume(&[("encrypted", text)]).expect("false").encrypted, Some(false), "{text}");
    }
    assert_eq!(volume(&[("encrypted", "")]).expect("unset").encrypted, None);
    let keys = [
        "encrypted",
        "allowAutoIOPSPerGBIncrease",
        "allowAutoIOPSIncreaseOnModify",
        "ext4BigAlloc",
        "ext4EncryptionSupport",
        "blockAttachUntilInitialized",
        "formatBlankRestore",
    ];
    for key in keys {
        for garbage in ["yes", "tRUE", " true", "2", "on"] {
            let error = volume(&[(key, garbage)]).expect_err("garbage").to_string();
            assert!(error.contains(key) && error.contains(garbage) && error.contains("true"), "{error}");
        }
    }
}

/// Numbers are signed.
#[test]
fn numbers_are_32_bit_and_zero_or_less_means_unset() {
    assert_eq!(volume(&[("iops", "2147483647")]).expect("fits").iops, NonZeroU32::new(2_147_483_647));
    assert_eq!(volume(&[("iops", "0"), ("throughput", "-5")]).expect("unset"), VolumeParameters::default());
}

/// The error names a limit only if a number exceeds it. It never names the limits of the driver's own integer types.
#[test]
fn text_in_place_of_a_number_is_refused_with_an_example() {
    for key in ["iops", "iopsPerGB", "throughput", "volumeInitializationRate"] {
        for text in ["abc", "", "3,000", "1.5", " 3000", "3000 IOPS", "0x10"] {
            let message = volume(&[(key, text)]).expect_err("not a number").to_string();
            assert!(message.contains(key) && message.contains("whole number such as"), "{message}");
            assert!(!message.contains("2147483647") && !message.contains("-2147483648"), "{message}");
        }
        let message = volume(&[(key, "2147483648")]).expect_err("too large").to_string();
        assert!(message.contains("at most 2147483647"), "{message}");
        let message = volume(&[(key, "-2147483649")]).expect_err("too small").to_string();
        assert!(message.contains("at least -2147483648"), "{message}");
    }
}

/// A value may have a unit such as `k`.
#[test]
fn values_for_mkfs_must_be_letters_and_digits() {
    for key in ["blockSize", "inodeSize", "bytesPerInode", "numberOfInodes", "ext4ClusterSize"] {
        assert!(volume(&[(key, "4096k")]).is_ok(), "{key}");
        for bad in ["-b 1", "4096;x", "é"] {
            assert!(
                matches!(volume(&[(key, bad)]), Err(ParameterError::Malformed { wanted, .. }) if wanted.contains("letters")),
                "{key}={bad}"
            );
        }
    }
}

/// The driver refuses invalid values for zones, the Outpost and the lock, and names the key.
#[test]
fn snapshot_parameters_are_case_insensitive_and_validated() {
    let parse = |entries: &[(&str, &str)]| SnapshotParameters::parse(&map(entries));
    let got = parse(&[
        ("fastSnapshotRestoreAvailabilityZones", "us-west-2a, us-west-2b"),
        ("outpostArn", "arn:aws:outposts:us-west-2:1:outpost/op-1"),
        ("lockMode", "compliance"),
        ("lockExpirationDate", "2030-01-02T03:04:05+02:00"),
        ("LOCKCOOLOFFPERIOD", "3"),
    ])
    .expect("understood");
    let zones: Vec<&str> = got.features.fast_restore_zones.iter().map(|z| z.as_str()).collect();
    assert_eq!(zones, ["us-west-2a", "us-west-2b"]);
    assert_eq!(got.outpost_arn.as_deref(), Some("arn:aws:outposts:us-west-2:1:outpost/op-1"));
    let end = humantime::parse_rfc3339("2030-01-02T01:04:05Z").expect("a time");
    let mode = LockMode::Compliance { cool_off_hours: Some(3) };
    assert_eq!(got.features.lock, Some(Lock { mode, end: LockEnd::At(end) }));
    let got = parse(&[("lockMode", "governance"), ("lockDuration", "7")]).expect("understood");
    assert_eq!(got.features.lock, Some(Lock { mode: LockMode::Governance, end: LockEnd::Days(7) }));
    assert_eq!(parse(&[("lockMode", "")]).expect("an empty mode asks for no lock").features.lock, None);
    for (key, value) in [
        ("fastSnapshotRestoreAvailabilityZones", ""),
        ("fastSnapshotRestoreAvailabilityZones", "us-west-2a,"),
        ("outpostArn", "arn:aws"),
        ("outpostArn", "outpost/op-1"),
        ("lockDuration", "soon"),
        ("lockExpirationDate", "tomorrow"),
        ("lockExpirationDate", "2030-01-02T03:04:05+99:00"),
        ("lockCoolOffPeriod", "1.5"),
    ] {
        let error = parse(&[(key, value)]).expect_err(value).to_string();
        assert!(error.contains(key) && error.contains(value), "{error}");
    }
}

/// The options must fit every capability of the request.
#[test]
fn format_options_must_fit_the_file_system() {
    let mount = |fs_type: &str| [Access::Mount { fs_type: fs_type.to_owned() }];
    let options =
        ["blocksize", "inodesize", "bytesperinode", "numberofinodes", "ext4bigalloc", "ext4encryptionsupport"];
    let rows = [
        ("ext4", [true; 6]),
        ("ext3", [true, true, true, true, false, false]),
        ("xfs", [true, true, false, false, false, false]),
        ("ntfs", [false; 6]),
        ("ext2", [true, true, true, true, false, false]),
        ("", [true; 6]),
        ("EXT3", [true, true, true, true, false, false]),
        ("btrfs", [true; 6]),
    ];
    for (fs_type, fits) in rows {
        for (key, fits) in options.iter().zip(fits) {
            let value = if key.starts_with("ext4") { "true" } else { "1024" };
            let formatting = volume(&[(key, value)]).expect("understood").format;
            let got = check_format_options(&formatting, &mount(fs_type));
            assert_eq!(got.is_ok(), fits, "{key} on {fs_type:?}: {got:?}");
            assert!(check_format_options(&formatting, &[Access::Unset]).is_err());
            assert!(
                check_format_options(&formatting, &[Access::Block]).is_ok(),
                "a raw block volume has no file system"
            );
        }
    }
    let cluster = volume(&[("ext4ClusterSize", "65536")]).expect("understood").format;
    assert_eq!(check_format_options(&cluster, &mount("ext4")), Err(ParameterError::ClusterSizeWithoutBigalloc));
    let both = volume(&[("ext4ClusterSize", "65536"), ("ext4BigAlloc", "true")]).expect("understood").format;
    assert_eq!(check_format_options(&both, &mount("ext4")), Ok(()));
    assert!(check_format_options(&both, &mount("xfs")).is_err());
    let mixed = [mount("ext4"), mount("xfs")].concat();
    assert!(check_format_options(&both, &mixed).is_err(), "every capability is checked");
}

/// The volume context contains all seven options, except empty ones.
#[test]
fn format_options_are_sent_under_lower_case_keys() {
    let format = volume(&[("blockSize", "4096"), ("ext4BigAlloc", "T"), ("inodeSize", "")]).expect("fine").format;
    let context = VolumeContext { format, ..VolumeContext::default() }.to_map();
    assert_eq!(context, map(&[("blocksize", "4096"), ("ext4bigalloc", "true")]));
    let all = [
        ("BlockSize", "blocksize", "4096"),
        ("InodeSize", "inodesize", "512"),
        ("BytesPerInode", "bytesperinode", "8192"),
        ("NumberOfInodes", "numberofinodes", "200192"),
        ("Ext4BigAlloc", "ext4bigalloc", "true"),
        ("Ext4ClusterSize", "ext4clustersize", "65536"),
        ("Ext4EncryptionSupport", "ext4encryptionsupport", "true"),
    ];
    for (written, travels, value) in all {
        let format = volume(&[(written, value)]).expect("understood").format;
        let context = VolumeContext { format, ..VolumeContext::default() }.to_map();
        assert_eq!(context, map(&[(travels, value)]));
    }
    assert_eq!(all.len(), FormatKey::ALL.len());
}

fn overridden(parameters: &[(&str, &str)], mutable: &[(&str, &str)]) -> VolumeParameters {
    let mut read = volume(parameters).expect("understood");
    MutableParameters::parse(&map(mutable)).expect("understood").override_in(&mut read);
    read
}

/// A value that is zero or empty unsets the value of the StorageClass.
#[test]
fn attributes_class_overrides_the_storage_class_key_by_key() {
    let class = [("type", "io1"), ("iops", "100"), ("throughput", "200")];
    let got = overridden(&class, &[("type", "gp3"), ("IOPS", "4000")]);
    assert_eq!(
        (got.volume_type, got.iops, got.throughput),
        (Some(VolumeType::Gp3), NonZeroU32::new(4000), NonZeroU32::new(200))
    );
    let got = overridden(&class, &[("type", ""), ("iops", "0")]);
    assert_eq!((got.volume_type, got.iops), (None, None));
    let got = overridden(&class, &[("volumeType", "io2")]);
    assert_eq!(got.volume_type, Some(VolumeType::Io2));
    let got = overridden(&class, &[("volumeType", "io2"), ("type", "gp2")]);
    assert_eq!(got.volume_type, Some(VolumeType::Gp2));
}

/// The keys are case-insensitive.
#[test]
fn attributes_class_accepts_the_keys_of_a_modification() {
    let got = overridden(&[], &[("iopsPerGB", "5"), ("allowAutoIOPSIncreaseOnModify", "true"), (PVC_NAME_KEY, "x")]);
    assert_eq!(
        (got.iops_per_gib, got.auto_iops_on_modify, got.claim.pvc_name.as_str()),
        (NonZeroU32::new(5), Some(true), "")
    );
    for (key, value) in [("encrypted", "true"), ("iops", "x"), ("allowAutoIOPSIncreaseOnModify", "yes")] {
        assert!(MutableParameters::parse(&map(&[(key, value)])).is_err(), "{key}");
    }
}

proptest! {
    /// An error names a key of the map. The parser accepts only maps with known keys.
    #[test]
    fn parameter_parser_never_panics(
        chance in proptest::collection::hash_map("[a-zA-Z0-9/._]{0,24}", ".{0,24}", 0..4),
        known in proptest::collection::hash_map(
            proptest::sample::select(vec!["type", "IOPS", "throughput", "encrypted", "blockSize", "lockMode", "lockDuration"]),
            ".{0,8}|true|3000|gp3|governance",
            0..4,
        ),
    ) {
        let entries: HashMap<String, String> =
            chance.into_iter().chain(known.into_iter().map(|(key, value)| (key.to_owned(), value))).collect();
        let rows: [(_, Vec<&str>); 3] = [
            (VolumeParameters::parse(&entries).err(), VolumeParameters::keys().collect()),
            (MutableParameters::parse(&entries).err(), MutableParameters::keys().collect()),
            (SnapshotParameters::parse(&entries).err(), SnapshotParameters::keys().collect()),
        ];
        for (refusal, known) in rows {
            match refusal {
                None => prop_assert!(entries.keys().all(|key| {
                    let is_known = known.iter().any(|known| known.to_lowercase() == key.to_lowercase());
                    is_known || key.starts_with(TAG_PREFIX) || key.starts_with(TAG_DELETION_PREFIX)
                }), "{entries:?}"),
                // The rules of a lock apply to several parameters together, so the error names no single key.
                Some(ParameterError::Lock { .. }) => {}
                Some(refusal) => {
                    let message = refusal.to_string();
                    prop_assert!(entries.keys().any(|key| message.contains(&format!("{key:?}")) || (!key.is_empty() && message.contains(key.as_str()))), "{message}");
                }
            }
        }
    }
}

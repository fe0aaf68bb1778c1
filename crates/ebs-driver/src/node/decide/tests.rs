use ebs_ec2::VolumeId;
use ebs_mounter::MountTable;
use proptest::prelude::*;

use super::*;

const DEVICE: DeviceNumber = DeviceNumber { major: 259, minor: 1 };
const OTHER: DeviceNumber = DeviceNumber { major: 259, minor: 2 };

fn entry(device: DeviceNumber, fs_type: &str, options: &str) -> MountEntry {
    let line = format!("36 35 {device} / /staging {options} - {fs_type} /dev/nvme1n1 rw\n");
    MountTable::parse(line.as_bytes()).entries()[0].clone()
}

fn flags(words: &[&str]) -> MountOptions {
    MountOptions::parse(words.iter().copied()).unwrap()
}

fn stage(entry: &MountEntry, fs_type: FsType, words: &[&str]) -> Result<Mounted, NodeRefusal> {
    staged(Some(entry), DEVICE, Some(fs_type), &flags(words))
}

#[test]
fn repeated_stage_changes_nothing() {
    assert_eq!(staged(None, DEVICE, Some(FsType::Ext4), &flags(&[])), Ok(Mounted::No));
    assert_eq!(stage(&entry(DEVICE, "ext4", "rw,relatime"), FsType::Ext4, &[]), Ok(Mounted::AsWanted));
    let read_only = entry(DEVICE, "xfs", "ro,nosuid,relatime");
    assert_eq!(stage(&read_only, FsType::Xfs, &["ro", "nosuid", "discard", "relatime"]), Ok(Mounted::AsWanted));
    assert_eq!(stage(&entry(DEVICE, "ext2", "rw"), FsType::Ext4, &[]), Ok(Mounted::AsWanted));
}

#[test]
fn stage_request_that_differs_from_the_mount_is_refused() {
    for (found, fs_type, words) in [
        (entry(DEVICE, "ext4", "rw"), FsType::Ext4, &["ro"][..]),
        (entry(DEVICE, "ext4", "ro"), FsType::Ext4, &[]),
        (entry(DEVICE, "ext4", "rw,nosuid"), FsType::Ext4, &["nodev"]),
        (entry(DEVICE, "ext4", "rw"), FsType::Xfs, &[]),
    ] {
        assert!(matches!(stage(&found, fs_type, words), Err(NodeRefusal::MountedDifferently { .. })), "{found:?}");
    }
}

/// If other attributes differ, the error does not name a requested file system.
#[test]
fn stage_without_a_file_system_accepts_any_mounted_one() {
    for fs_type in ["ext2", "ext3", "ext4", "xfs"] {
        let found = entry(DEVICE, fs_type, "rw");
        assert_eq!(staged(Some(&found), DEVICE, None, &flags(&[])), Ok(Mounted::AsWanted), "{fs_type}");
    }
    let refused = staged(Some(&entry(DEVICE, "xfs", "rw")), DEVICE, None, &flags(&["ro"])).unwrap_err();
    let (found, wanted) = ("xfs rw".to_owned(), "ro".to_owned());
    assert_eq!(refused, NodeRefusal::MountedDifferently { found, wanted });
}

#[test]
fn stage_never_mounts_over_a_foreign_device() {
    let foreign = entry(OTHER, "ext4", "rw");
    let refused = stage(&foreign, FsType::Ext4, &[]).unwrap_err();
    assert_eq!(refused, NodeRefusal::OtherMount { found: "ext4 from /dev/nvme1n1 (device 259:2)".to_owned() });
}

#[test]
fn publish_compares_the_device_the_root_and_the_attributes() {
    let source = entry(DEVICE, "ext4", "rw,nosuid");
    let target = |options| entry(DEVICE, "ext4", options);
    let ro = flags(&["ro"]);
    assert_eq!(published(None, &source, None, &ro), Ok(Mounted::No));
    assert_eq!(published(Some(&target("ro,nosuid")), &source, None, &ro), Ok(Mounted::AsWanted));
    assert_eq!(published(Some(&target("rw,nosuid")), &source, None, &flags(&["rw", "discard"])), Ok(Mounted::AsWanted));
    for (found, wanted) in [("rw,nosuid", &ro), ("ro,nosuid", &flags(&[]))] {
        let outcome = published(Some(&target(found)), &source, None, wanted);
        assert!(matches!(outcome, Err(NodeRefusal::MountedDifferently { .. })), "{found}: {outcome:?}");
    }
    let below = MountEntry { root: "/sub".into(), ..target("ro,nosuid") };
    assert!(matches!(published(Some(&below), &source, None, &ro), Err(NodeRefusal::MountedDifferently { .. })));
    assert!(matches!(
        published(Some(&entry(OTHER, "ext4", "ro")), &source, None, &ro),
        Err(NodeRefusal::OtherMount { .. })
    ));
}

/// The driver does not compare options that the kernel shows in a different form than requested.
#[test]
fn mount_with_other_label_journal_mode_or_type_is_refused() {
    let with = |words: &str| {
        let line = format!("36 35 {DEVICE} / /staging rw,relatime - ext4 /dev/nvme1n1 {words}\n");
        MountTable::parse(line.as_bytes()).entries()[0].clone()
    };
    let differs = |has: &str, asked: &[&str]| {
        let (entry, options) = (with(has), flags(asked));
        let staged = staged(Some(&entry), DEVICE, Some(FsType::Ext4), &options);
        let unpublished = published(None, &entry, Some(FsType::Ext4), &options);
        let published = published(Some(&entry), &entry, Some(FsType::Ext4), &options);
        let differ =
            |outcome: &Result<Mounted, NodeRefusal>| matches!(outcome, Err(NodeRefusal::MountedDifferently { .. }));
        assert_eq!(differ(&staged), differ(&published), "{has} {asked:?}: {staged:?}, {published:?}");
        assert_eq!(differ(&staged), differ(&unpublished), "{has} {asked:?}: {staged:?}, {unpublished:?}");
        differ(&staged)
    };
    let (one, other) = (r#"context="a:b:c:s0:c1,c2""#, r#"context="a:b:c:s0:c1,c3""#);
    for (has, asked) in [
        ("rw", &[one][..]),
        (r#"rw,context="a:b:c:s0:c1,c2""#, &[]),
        (r#"rw,context="a:b:c:s0:c1,c2""#, &[other]),
        (r#"rw,context="a:b:c:s0:c1,c2""#, &[r#"context="a:b:d:s0:c1,c2""#]),
        (r#"rw,context="a:b:c:s0""#, &[r#"context="a:b:c:s0:c1""#]),
        ("rw", &["data=journal"]),
        ("rw,data=journal", &["data=ordered"]),
        ("rw,errors=remount-ro", &["errors=panic"]),
    ] {
        assert!(differs(has, asked), "{has} {asked:?}");
    }
    for (has, asked) in [
        (r#"rw,context="a:b:c:s0:c1,c2""#, &[one][..]),
        ("rw,seclabel", &[]),
        (r#"rw,context="a:b:c:s0:c1,c2""#, &[r#"context="a:b:c:s0:c2,c1""#]),
        (r#"rw,context="a:b:c:s0:c1.c3,c9""#, &[r#"context="a:b:c:s0:c9,c1,c2,c3""#]),
        ("rw,context=a:b:c:s0", &[r#"context="a:b:c:s0""#]),
        ("rw", &["data=ordered", "errors=continue", "allocsize=64m", "discard", "delalloc"]),
        ("rw,data=journal,allocsize=65536k", &["data=journal", "allocsize=64m"]),
        ("rw,data=writeback", &[]),
    ] {
        assert!(!differs(has, asked), "{has} {asked:?}");
    }
    let source = with("rw");
    for entry in [None, Some(&source)] {
        let outcome = published(entry, &source, Some(FsType::Xfs), &flags(&[]));
        assert!(matches!(outcome, Err(NodeRefusal::MountedDifferently { .. })), "{outcome:?}");
        assert!(published(entry, &source, Some(FsType::Ext3), &flags(&[])).is_ok(), "one family");
    }
}

#[test]
fn block_publish_compares_the_device_and_the_read_only_flag() {
    let node = entry(DeviceNumber { major: 0, minor: 5 }, "devtmpfs", "rw,nosuid");
    let decide = |leads_to, words: &[&str]| published_block(Some(&node), leads_to, DEVICE, &flags(words));
    assert_eq!(published_block(None, None, DEVICE, &flags(&[])), Ok(Mounted::No));
    assert_eq!(decide(Some(DEVICE), &[]), Ok(Mounted::AsWanted));
    assert!(matches!(decide(Some(DEVICE), &["ro"]), Err(NodeRefusal::MountedDifferently { .. })));
    assert!(matches!(decide(Some(OTHER), &[]), Err(NodeRefusal::OtherMount { .. })));
    assert!(matches!(decide(None, &[]), Err(NodeRefusal::OtherMount { .. })));
}

#[test]
fn mount_point_must_be_missing_or_empty() {
    let file = PathKind::File { bytes: 0 };
    let directory = PathKind::Directory { empty: true };
    for (found, for_file) in
        [(&PathKind::Missing, true), (&PathKind::Missing, false), (&file, true), (&directory, false)]
    {
        assert_eq!(check_mount_point(found, for_file), Ok(()));
    }
    let full = PathKind::Directory { empty: false };
    for (found, for_file) in
        [(&full, false), (&full, true), (&directory, true), (&file, false), (&PathKind::File { bytes: 1 }, true)]
    {
        assert!(matches!(check_mount_point(found, for_file), Err(NodeRefusal::InTheWay { .. })), "{found}");
    }
    assert_eq!(check_mount_point(&PathKind::Symlink, true), Err(NodeRefusal::Symlink));
}

fn record() -> FormatRecord {
    FormatRecord {
        volume: VolumeId::parse("vol-0abc").unwrap(),
        partition: None,
        bytes: 1 << 30,
        fs_type: FsType::Ext4,
        attach_time: Some("2026-11-21T17:31:00Z".to_owned()),
        boot_id: "3bd5cb53-7200-4b16-a2f7-55ed1954f190".to_owned(),
        diskseq: Some(12),
    }
}

fn plan_for(contents: &Contents, change: impl FnOnce(&mut Evidence<'_>)) -> Result<Plan, NodeRefusal> {
    let record = record();
    let mut evidence = Evidence {
        contents,
        partitions: &[1, 2],
        asked: Some(FsType::Ext4),
        record: &record,
        left_behind: None,
        restored_from: None,
        may_format_restored: false,
        read_only: false,
    };
    change(&mut evidence);
    super::contents(&evidence)
}

const FOREIGN_OFFSET: u64 = 512;

fn foreign() -> Contents {
    Contents::Foreign { what: "a GPT partition table".to_owned(), offset: FOREIGN_OFFSET }
}

#[test]
fn nonblank_device_is_formatted_only_with_a_matching_record() {
    let data = Contents::Data { offset: 4096 };
    for contents in [&data, &foreign()] {
        let refused = plan_for(contents, |_| {}).unwrap_err();
        assert_eq!(refused, NodeRefusal::NotBlank { contents: contents.to_string(), partitions: vec![1, 2] });
    }
    let other = FormatRecord { attach_time: Some("2026-11-21T18:00:00Z".to_owned()), ..record() };
    let left = |record: &'static FormatRecord| move |evidence: &mut Evidence<'_>| evidence.left_behind = Some(record);
    assert!(plan_for(&data, left(Box::leak(Box::new(other)))).is_err());
    let same: &'static FormatRecord = Box::leak(Box::new(record()));
    assert!(matches!(plan_for(&data, left(same)), Ok(Plan::Format(_))));
    assert!(plan_for(&foreign(), left(same)).is_err());
}

proptest! {
    #[test]
    fn foreign_contents_are_always_refused(restored: bool, may: bool, read_only: bool) {
        let same = record();
        let outcome = plan_for(&foreign(), |evidence| {
            evidence.left_behind = Some(Box::leak(Box::new(same)));
            evidence.restored_from = restored.then_some(&VolumeOrigin::Snapshot);
            evidence.may_format_restored = may;
            evidence.read_only = read_only;
        });
        let is_refused = matches!(outcome, Err(NodeRefusal::NotBlank { .. }));
        prop_assert!(is_refused);
    }
}

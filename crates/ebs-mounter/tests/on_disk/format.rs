//! Tests which devices the driver formats and, above all, which it does not, on real block devices.

use std::os::unix::fs::OpenOptionsExt;

use crate::disk::{Disk, MIB, output_of, plain, unmount_all, with_disk};
use ebs_mounter::{Contents, FormatError, FormatOptions, FormatRecord, FormatSpec, FsType, MountOptions};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::replaced_tool::ReplacedTool;

const DUMPE2FS: &str = "/usr/sbin/dumpe2fs";
/// Behaves like an mkfs.xfs without any optional feature.
const KNOWS: &str = "/bin/sh -c 'echo unknown option; exit 1'";

/// Returns the words after a label in the output of dumpe2fs.
fn line<'a>(dump: &'a str, label: &str) -> Vec<&'a str> {
    let found = dump.lines().find_map(|line| line.strip_prefix(label));
    let mut words: Vec<&str> = found.unwrap_or_else(|| panic!("no {label}")).split_whitespace().collect();
    words.sort_unstable();
    words
}

#[tokio::test]
async fn ext_has_exactly_the_features_of_e2fsprogs_1_46_5() {
    let base = "ext_attr resize_inode dir_index filetype sparse_super large_file";
    let ext4 = "has_journal extent 64bit flex_bg huge_file dir_nlink extra_isize metadata_csum";
    for (fs_type, more) in [(FsType::Ext2, ""), (FsType::Ext3, "has_journal"), (FsType::Ext4, ext4)] {
        let disk = Disk::new(600 * MIB);
        assert_eq!(disk.format(&plain(fs_type)).await.fs_type(), fs_type);
        let dump = output_of(DUMPE2FS, &["-h", disk.device.path().to_str().unwrap()]);
        let mut expected: Vec<&str> = base.split(' ').chain(more.split_whitespace()).collect();
        expected.sort_unstable();
        for (label, words) in [
            ("Filesystem features:", &expected[..]),
            ("Reserved block count:", &["0"]),
            ("Inode size:", &["256"]),
            ("Block size:", &["4096"]),
            ("Default mount options:", &["acl", "user_xattr"]),
            ("Maximum mount count:", &["-1"]),
        ] {
            assert_eq!(line(&dump, label), words, "{fs_type}: {label}");
        }
    }
}

#[tokio::test]
async fn new_xfs_has_xfsprogs_6_12_features_and_legacy_xfs_fewer() {
    // The `ro_compat` bits are finobt, rmapbt, reflink and inobtcount. The `incompat` bits are ftype, sparse inodes,
    // bigtime and large extent counters.
    for (legacy_xfs, ro_compat, incompat) in [(false, "0xf", "0x2b"), (true, "0x3", "0x3")] {
        let disk = Disk::new(600 * MIB);
        let options = FormatOptions { legacy_xfs, ..FormatOptions::default() };
        disk.format(&FormatSpec { fs_type: FsType::Xfs, options }).await;
        let expected = format!("features_ro_compat = {ro_compat}\nfeatures_incompat = {incompat}");
        assert_eq!(xfs_bits(&disk).join("\n"), format!("features_compat = 0\n{expected}"));
    }
}

fn xfs_bits(disk: &Disk) -> Vec<String> {
    let fields = "print features_compat features_ro_compat features_incompat";
    let text = output_of("/usr/sbin/xfs_db", &["-r", "-c", "sb 0", "-c", fields, disk.device.path().to_str().unwrap()]);
    text.lines().map(str::to_owned).collect()
}

/// Leaves a record, as an mkfs that was killed does. For use in the test's own mount namespace only.
async fn interrupted(disk: &Disk, fs_type: FsType) -> FormatRecord {
    let program = if fs_type.is_ext() { "mke2fs" } else { "mkfs.xfs" };
    // The driver first queries the features of mkfs.xfs.
    let script = format!("case \"$*\" in -N*) exec {KNOWS} ;; esac; kill -9 $$");
    let replaced = ReplacedTool::by_script(program, &script).unwrap();
    let outcome = disk.format_blank(&plain(fs_type)).await;
    drop(replaced);
    assert!(matches!(outcome, Err(FormatError::Mkfs(_))), "{outcome:?}");
    let record = disk.record(fs_type).await;
    assert_eq!(disk.mounter.interrupted_format(&disk.find().await).await, Some(record.clone()));
    record
}

fn has_record(disk: &Disk) -> bool {
    disk.place.path().join(format!("format-{}", disk.volume)).exists()
}

/// Repeats the format like a second NodeStageVolume call (node/stage.rs of the driver).
async fn format_again(disk: &Disk, fs_type: FsType) -> Option<Result<(), FormatError>> {
    let (device, record, contents) = (disk.find().await, disk.record(fs_type).await, disk.contents().await);
    let left = disk.mounter.interrupted_format(&device).await;
    let permit = left.and_then(|left| record.permit_redo(&left, &contents))?;
    Some(disk.mounter.format(&device, &plain(fs_type), &record, permit).await)
}

#[test]
fn mkfs_that_cannot_be_started_leaves_no_record() {
    with_disk(async |disk| {
        let _replaced = ReplacedTool::by("mke2fs", "neither a program nor a script").unwrap();
        let outcome = disk.format_blank(&plain(FsType::Ext4)).await;
        assert!(matches!(outcome, Err(FormatError::Mkfs(_))), "{outcome:?}");
        assert!(!has_record(disk));
    });
}

/// A child that another thread starts can briefly share the descriptor that holds the disk exclusively for the check
/// before mkfs.
#[test]
fn mkfs_is_repeated_when_it_finds_the_disk_in_use() {
    with_disk(async |disk| {
        let (copy, calls) = (disk.place.path().join("mke2fs"), disk.place.path().join("calls"));
        std::fs::copy("/usr/sbin/mke2fs", &copy).unwrap();
        let script = format!(
            "[ -e {calls} ] && exec {copy} \"$@\"\necho called > {calls}\n\
             echo 'the disk is apparently in use by the system; will not make a filesystem here!'; exit 1",
            calls = calls.display(),
            copy = copy.display(),
        );
        let _replaced = ReplacedTool::by_script("mke2fs", &script).unwrap();
        disk.format(&plain(FsType::Ext4)).await;
        assert!(calls.exists());
    });
}

#[test]
fn format_redo_does_not_start_if_its_record_was_removed() {
    with_disk(async |disk| {
        let record = interrupted(disk, FsType::Ext4).await;
        disk.device.write_at(b"precious", 40_960).unwrap();
        let permit = record.permit_redo(&record, &disk.contents().await).expect("permission to format again");
        // A concurrent raw publish also removes the record.
        disk.mounter.forget_format(&disk.volume).await.unwrap();
        let outcome = disk.mounter.format(&disk.find().await, &plain(FsType::Ext4), &record, permit).await;
        assert!(matches!(outcome, Err(FormatError::Record(_))), "{outcome:?}");
        assert_eq!(disk.device.read_at(8, 40_960).unwrap(), b"precious");
        assert!(!has_record(disk));
    });
}

/// Holds the disk like a mount, or like a tool that uses it.
fn held(disk: &Disk) -> std::fs::File {
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    std::fs::File::options().read(true).custom_flags(exclusive).open(disk.device.path()).unwrap()
}

#[test]
fn held_disk_is_not_formatted_and_a_format_redo_waits_for_it() {
    in_mount_namespace(|| async {
        for fs_type in [FsType::Ext4, FsType::Xfs] {
            let disk = Disk::new(600 * MIB);
            let holder = held(&disk);
            let outcome = disk.format_blank(&plain(fs_type)).await;
            assert!(matches!(outcome, Err(FormatError::Held { .. })), "{outcome:?}");
            assert!(!has_record(&disk));
            drop(holder);
            interrupted(&disk, fs_type).await;
            disk.device.write_at(&[0xff; 4096], 12 * 4096).unwrap();
            // Simulates the mkfs of a killed driver, which is still running.
            let holder = held(&disk);
            let outcome = format_again(&disk, fs_type).await;
            assert!(matches!(outcome, Some(Err(FormatError::Held { .. }))), "{outcome:?}");
            assert!(has_record(&disk), "the holder may leave an incomplete file system");
            drop(holder);
            format_again(&disk, fs_type).await.expect("permission to format again").unwrap();
        }
    });
}

#[test]
fn format_record_permits_no_redo_if_mkfs_never_started() {
    with_disk(async |disk| {
        interrupted(disk, FsType::Ext4).await;
        let path = disk.place.path().join(format!("format-{}", disk.volume));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("state=started\n"), "{text}");
        std::fs::write(&path, text.replace("state=started", "state=checking")).unwrap();
        assert_eq!(disk.mounter.interrupted_format(&disk.find().await).await, None);
    });
}

#[test]
fn format_record_and_its_removal_survive_a_power_cut() {
    in_mount_namespace(|| async {
        // To simulate a power cut, the file system of the state directory loses its unwritten log.
        let below = Disk::new(600 * MIB);
        let (device, at) = below.mounted(FsType::Xfs, "below", &[]).await;
        let directory = at.as_path().display();
        let disk = Disk::new(64 * MIB);
        let state = at.as_path().join("state");
        let mounter = ebs_mounter::Mounter::new(crate::disk::config(&state, disk.device.directory())).unwrap();
        let (found, record, permit) = disk.proven_blank(FsType::Ext4).await;
        let cut = format!("/usr/sbin/xfs_io -x -c shutdown {directory}");
        let replaced = ReplacedTool::by_script("mke2fs", &format!("{cut}\nkill -9 $$")).unwrap();
        let outcome = mounter.format(&found, &plain(FsType::Ext4), &record, permit).await;
        assert!(matches!(outcome, Err(FormatError::Mkfs(_))), "{outcome:?}");
        drop(replaced);
        unmount_all(&below.mounter, &at).await.unwrap();
        below.mounter.mount(&device, &at, FsType::Xfs, &MountOptions::default()).await.unwrap();
        let kept = std::fs::read_to_string(state.join(format!("format-{}", disk.volume))).expect("a record");
        assert!(kept.starts_with("volume=") && kept.ends_with("end\n"), "{kept:?}");
        mounter.forget_format(&disk.volume).await.unwrap();
        output_of("/usr/sbin/xfs_io", &["-x", "-c", "shutdown", at.as_path().to_str().unwrap()]);
        unmount_all(&below.mounter, &at).await.unwrap();
        below.mounter.mount(&device, &at, FsType::Xfs, &MountOptions::default()).await.unwrap();
        assert!(!state.join(format!("format-{}", disk.volume)).exists(), "a removed record came back");
    });
}

#[test]
fn xfs_with_format_in_progress_is_formatted_again_with_record() {
    in_mount_namespace(|| async {
        let disk = Disk::new(600 * MIB);
        let record = interrupted(&disk, FsType::Xfs).await;
        output_of("/usr/sbin/mkfs.xfs", &["-q", disk.device.path().to_str().unwrap()]);
        disk.device.write_at(&[1], 126).unwrap();
        let contents = disk.contents().await;
        assert!(matches!(&contents, Contents::Filesystem(superblock) if !superblock.is_complete()), "{contents}");
        let permit = record.permit_redo(&record, &contents).expect("permission to format again");
        disk.mounter.format(&disk.find().await, &plain(FsType::Xfs), &record, permit).await.unwrap();
        assert!(matches!(disk.contents().await, Contents::Filesystem(superblock) if superblock.is_complete()));
    });
}

#[test]
fn redo_never_overwrites_a_complete_file_system() {
    with_disk(async |disk| {
        let record = interrupted(disk, FsType::Ext4).await;
        disk.device.write_at(&[0xff; 4096], 12 * 4096).unwrap();
        let contents = disk.contents().await;
        let permit = record.permit_redo(&record, &contents).expect("permission to format again");
        // Another program has since made a complete file system.
        output_of("/usr/sbin/mke2fs", &["-q", "-F", "-L", "precious", disk.device.path().to_str().unwrap()]);
        let outcome = disk.mounter.format(&disk.find().await, &plain(FsType::Ext4), &record, permit).await;
        assert!(matches!(outcome, Err(FormatError::NoLongerBlank { .. })), "{outcome:?}");
        assert_eq!(disk.device.read_at(8, 1024 + 0x78).unwrap(), b"precious");
    });
}

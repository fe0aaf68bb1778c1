//! Tests which devices are formatted, and above all which are not, on real block devices.

use std::os::unix::fs::OpenOptionsExt;

use crate::disk::{Disk, MIB, output_of, plain, unmount_all, with_disk};
use ebs_mounter::{
    Contents, FormatError, FormatOptions, FormatPermit, FormatRecord, FormatSpec, FsType, MountOptions, ProbeError,
    SizeWord,
};
use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::replaced_tool::ReplacedTool;
use rand::RngExt;

const DUMPE2FS: &str = "/usr/sbin/dumpe2fs";
/// Behaves like an mkfs.xfs that knows no optional feature.
const KNOWS: &str = "/bin/sh -c 'echo unknown option; exit 1'";
const XFS_INFO: &str = "/usr/sbin/xfs_info";

/// Returns the words after a label in the output of dumpe2fs.
fn line<'a>(dump: &'a str, label: &str) -> Vec<&'a str> {
    let found = dump.lines().find_map(|line| line.strip_prefix(label));
    let mut words: Vec<&str> = found.unwrap_or_else(|| panic!("no {label}")).split_whitespace().collect();
    words.sort_unstable();
    words
}

async fn features_of(fs_type: FsType, expected: &str) {
    let disk = Disk::new(600 * MIB);
    assert_eq!(disk.format(&plain(fs_type)).await.fs_type(), fs_type);
    let dump = output_of(DUMPE2FS, &["-h", disk.device.path().to_str().unwrap()]);
    let mut expected: Vec<&str> = expected.split(' ').collect();
    expected.sort_unstable();
    assert_eq!(line(&dump, "Filesystem features:"), expected);
    assert_eq!(line(&dump, "Reserved block count:"), ["0"]);
    assert_eq!(line(&dump, "Inode size:"), ["256"]);
    assert_eq!(line(&dump, "Block size:"), ["4096"]);
    assert_eq!(line(&dump, "Default mount options:"), ["acl", "user_xattr"]);
    assert_eq!(line(&dump, "Maximum mount count:"), ["-1"]);
}

/// It also has no reserved blocks.
#[tokio::test]
async fn ext4_has_exactly_the_features_of_e2fsprogs_1_46_5() {
    let features = "has_journal ext_attr resize_inode dir_index filetype extent 64bit flex_bg sparse_super large_file \
                    huge_file dir_nlink extra_isize metadata_csum";
    features_of(FsType::Ext4, features).await;
}

#[tokio::test]
async fn only_ext3_and_not_ext2_has_a_journal() {
    let base = "ext_attr resize_inode dir_index filetype sparse_super large_file";
    features_of(FsType::Ext2, base).await;
    features_of(FsType::Ext3, &format!("has_journal {base}")).await;
}

/// Returns the `name=value` words of xfs_info.
fn xfs_words(disk: &Disk) -> Vec<String> {
    let info = output_of(XFS_INFO, &[disk.device.path().to_str().unwrap()]);
    info.split(|c: char| c.is_whitespace() || c == ',').filter(|word| word.contains('=')).map(str::to_owned).collect()
}

#[tokio::test]
async fn xfs_has_features_of_xfsprogs_6_12_and_legacy_xfs_fewer() {
    let disk = Disk::new(600 * MIB);
    disk.format(&plain(FsType::Xfs)).await;
    let words = xfs_words(&disk);
    for word in ["crc=1", "finobt=1", "sparse=1", "rmapbt=1", "reflink=1", "bigtime=1", "inobtcount=1", "nrext64=1"] {
        assert!(words.iter().any(|have| have == word), "{word} is not in {words:?}");
    }
    // Checks all bits, so that no other feature is enabled: finobt, rmapbt, reflink, inobtcount; ftype, sparse inodes,
    // bigtime, large extent counters.
    assert_eq!(xfs_bits(&disk), ["features_compat = 0", "features_ro_compat = 0xf", "features_incompat = 0x2b"]);
    let legacy = Disk::new(600 * MIB);
    let options = FormatOptions { legacy_xfs: true, ..FormatOptions::default() };
    legacy.format(&FormatSpec { fs_type: FsType::Xfs, options }).await;
    let words = xfs_words(&legacy);
    for word in ["crc=1", "reflink=0", "bigtime=0", "inobtcount=0", "nrext64=0"] {
        assert!(words.iter().any(|have| have == word), "{word} is not in {words:?}");
    }
    assert_eq!(xfs_bits(&legacy), ["features_compat = 0", "features_ro_compat = 0x3", "features_incompat = 0x3"]);
}

/// Returns the feature bits of the superblock.
fn xfs_bits(disk: &Disk) -> Vec<String> {
    let fields = "print features_compat features_ro_compat features_incompat";
    let text = output_of("/usr/sbin/xfs_db", &["-r", "-c", "sb 0", "-c", fields, disk.device.path().to_str().unwrap()]);
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn bigalloc_and_encryption_are_enabled_together_with_sizes() {
    let disk = Disk::new(600 * MIB);
    let options = FormatOptions {
        bigalloc: true,
        encryption: true,
        cluster_size: SizeWord::parse("65536").unwrap(),
        inode_size: SizeWord::parse("512").unwrap(),
        ..FormatOptions::default()
    };
    disk.format(&FormatSpec { fs_type: FsType::Ext4, options }).await;
    let dump = output_of(DUMPE2FS, &["-h", disk.device.path().to_str().unwrap()]);
    let features = line(&dump, "Filesystem features:");
    assert!(features.contains(&"bigalloc") && features.contains(&"encrypt"), "{features:?}");
    assert_eq!(line(&dump, "Cluster size:"), ["65536"]);
    assert_eq!(line(&dump, "Inode size:"), ["512"]);
}

#[tokio::test]
async fn disk_with_one_random_byte_at_its_ends_is_not_blank() {
    let disk = Disk::new(600 * MIB);
    assert!(matches!(disk.contents().await, Contents::Blank(_)));
    for _ in 0..12 {
        let back = rand::random::<bool>();
        let within = rand::rng().random_range(0..MIB);
        let offset = if back { 600 * MIB - 1 - within } else { within };
        disk.device.write_at(&[1], offset).unwrap();
        assert_eq!(disk.contents().await, Contents::Data { offset }, "byte {offset}");
        disk.device.write_at(&[0], offset).unwrap();
    }
    assert!(matches!(disk.contents().await, Contents::Blank(_)));
}

#[tokio::test]
async fn disk_with_a_dirty_page_at_a_backup_superblock_is_not_blank() {
    let disk = Disk::new(600 * MIB);
    // Group 3 of an ext with 4 KiB blocks, group 2 of 4 of an xfs, and a btrfs mirror.
    for offset in [3 * 128 * MIB, 300 * MIB, 64 * MIB] {
        disk.device.write_at(&[0xa5; 4096], offset).unwrap();
        assert_eq!(disk.contents().await, Contents::Data { offset });
        disk.device.write_at(&[0; 4096], offset).unwrap();
    }
}

/// Makes a file system with the real tool, and wipes its first MiB as people do.
async fn wiped(program: &str, args: &[&str], bytes: u64) -> Contents {
    let disk = Disk::new(bytes);
    let args: Vec<&str> = args.iter().copied().chain([disk.device.path().to_str().unwrap()]).collect();
    output_of(program, &args);
    disk.device.write_at(&vec![0; usize::try_from(MIB).unwrap()], 0).unwrap();
    disk.contents().await
}

#[tokio::test]
async fn wiped_xfs_of_any_number_of_groups_is_not_blank() {
    for groups in [5, 6, 25, 36, 48, 96] {
        let count = format!("agcount={groups}");
        let contents = wiped("/usr/sbin/mkfs.xfs", &["-q", "-K", "-d", &count], 100 << 30).await;
        assert!(matches!(contents, Contents::Data { .. }), "{groups} groups: {contents}");
    }
}

#[tokio::test]
async fn wiped_ext4_with_clusters_is_not_blank() {
    let args = ["-q", "-t", "ext4", "-O", "bigalloc", "-C", "65536", "-E", "nodiscard,lazy_itable_init=1"];
    let contents = wiped("/usr/sbin/mke2fs", &args, 100 << 30).await;
    assert!(matches!(contents, Contents::Data { .. }), "{contents}");
}

#[test]
fn failed_blkid_gives_no_opinion() {
    with_disk(async |disk| {
        let _replaced = ReplacedTool::by_script("blkid", "echo 'error: cannot open' >&2; exit 2").unwrap();
        let outcome = disk.mounter.probe(&disk.find().await).await;
        assert!(matches!(outcome, Err(ProbeError::Tool { .. })), "{outcome:?}");
    });
}

#[tokio::test]
async fn signature_that_only_blkid_knows_is_not_blank() {
    let disk = Disk::new(600 * MIB);
    // VMFS has one signature at 1 MiB, one at 2 MiB, and nothing else.
    disk.device.write_at(b"\x0d\xd0\x01\xc0", MIB).unwrap();
    disk.device.write_at(b"\x5e\xf1\xab\x2f", 2 * MIB).unwrap();
    let outcome = disk.mounter.probe(&disk.find().await).await;
    let said = match &outcome {
        Ok(Contents::Foreign { what, .. }) => what.clone(),
        Err(ProbeError::Disagreement { blkid, .. }) => blkid.clone(),
        other => panic!("{other:?}"),
    };
    assert!(said.contains("VMFS"), "{said}");
}

#[tokio::test]
async fn data_over_one_stretch_in_the_middle_is_not_blank() {
    let disk = Disk::new(600 * MIB);
    let stretch = 600 * MIB / 1024;
    let start = rand::rng().random_range(4..1020) * stretch;
    disk.device.write_at(&vec![0x5a; usize::try_from(stretch).unwrap()], start).unwrap();
    let contents = disk.contents().await;
    assert!(matches!(contents, Contents::Data { offset } if (start..start + stretch).contains(&offset)), "{contents}");
}

#[tokio::test]
async fn signature_or_partition_table_is_foreign_and_untouched() {
    let entry = [0, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 2, 0];
    let table = [&[0; 446][..], &entry, &[0; 48], &[0x55, 0xaa]].concat();
    let cases: [(&[u8], u64, &str); 4] = [
        (&table, 0, "a DOS partition table"),
        (b"LUKS\xba\xbe\0\x02", 0, "LUKS encryption"),
        (b"_BHRfS_M", 65_600, "btrfs"),
        (b"LABELONE\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0LVM2 001", 512, "an LVM physical volume"),
    ];
    for (sign, offset, name) in cases {
        let disk = Disk::new(64 * MIB);
        disk.device.write_at(sign, offset).unwrap();
        let contents = disk.contents().await;
        assert!(matches!(&contents, Contents::Foreign { what, .. } if what == name), "{name}: {contents}");
        assert_eq!(disk.device.read_at(sign.len(), offset).unwrap(), sign);
    }
}

/// The disk has real I/O errors.
#[test]
fn unreadable_device_is_an_error_and_never_blank() {
    in_mount_namespace(|| async {
        // A loop device over a file in a file system that was shut down returns an I/O error for every read.
        let below = Disk::new(600 * MIB);
        let (_, at) = below.mounted(FsType::Xfs, "below", &[]).await;
        let volume = unused_volume_id();
        let disk = Disk::over(volume.clone(), LoopDevice::new_in(at.as_path(), &volume, 64 * MIB).unwrap());
        assert!(matches!(disk.contents().await, Contents::Blank(_)));
        let device = disk.find().await;
        let directory = at.as_path().to_str().unwrap();
        output_of("/usr/sbin/xfs_io", &["-x", "-c", "shutdown", directory]);
        let outcome = disk.mounter.probe(&device).await;
        assert!(matches!(outcome, Err(ProbeError::Read { .. })), "{outcome:?}");
    });
}

#[tokio::test]
async fn disk_with_new_data_since_the_proof_is_not_formatted() {
    let disk = Disk::new(64 * MIB);
    let Contents::Blank(proof) = disk.contents().await else { panic!("not blank") };
    disk.device.write_at(b"precious", 8192).unwrap();
    let (device, record) = (disk.find().await, disk.record(FsType::Ext4).await);
    let permit = FormatPermit::of_blank(&proof);
    let outcome = disk.mounter.format(&device, &plain(FsType::Ext4), &record, permit).await;
    assert!(matches!(outcome, Err(FormatError::NoLongerBlank { .. })), "{outcome:?}");
    assert_eq!(disk.device.read_at(8, 8192).unwrap(), b"precious");
}

/// Formats as the driver does after a blank proof.
async fn format_blank(disk: &Disk, spec: &FormatSpec) -> Result<(), FormatError> {
    let Contents::Blank(proof) = disk.contents().await else { panic!("not blank") };
    let (device, record) = (disk.find().await, disk.record(spec.fs_type).await);
    disk.mounter.format(&device, spec, &record, FormatPermit::of_blank(&proof)).await
}

/// Leaves a record like an mkfs that was killed. Use it only in the test's own mount namespace.
async fn interrupted(disk: &Disk, fs_type: FsType) -> FormatRecord {
    let program = if fs_type.is_ext() { "mke2fs" } else { "mkfs.xfs" };
    // The driver first queries the features of mkfs.xfs.
    let script = format!("case \"$*\" in -N*) exec {KNOWS} ;; esac; kill -9 $$");
    let replaced = ReplacedTool::by_script(program, &script).unwrap();
    let outcome = format_blank(disk, &plain(fs_type)).await;
    drop(replaced);
    assert!(matches!(outcome, Err(FormatError::Mkfs(_))), "{outcome:?}");
    let record = disk.record(fs_type).await;
    assert_eq!(disk.mounter.interrupted_format(&disk.find().await).await, Some(record.clone()));
    record
}

/// True if the state directory contains a record of a format.
fn has_record(disk: &Disk) -> bool {
    disk.place.path().join(format!("format-{}", disk.volume)).exists()
}

/// Does the same as node/stage.rs of the driver when it is called again.
async fn format_again(disk: &Disk, fs_type: FsType) -> Option<Result<(), FormatError>> {
    let (device, record, contents) = (disk.find().await, disk.record(fs_type).await, disk.contents().await);
    let left = disk.mounter.interrupted_format(&device).await;
    let permit = left.and_then(|left| record.permit_redo(&left, &contents))?;
    Some(disk.mounter.format(&device, &plain(fs_type), &record, permit).await)
}

#[tokio::test]
async fn rejection_before_mkfs_does_not_permit_the_next_format() {
    let disk = Disk::new(64 * MIB);
    let Contents::Blank(proof) = disk.contents().await else { panic!("not blank") };
    disk.device.write_at(b"precious", 40_960).unwrap();
    let (device, record) = (disk.find().await, disk.record(FsType::Ext4).await);
    let first = disk.mounter.format(&device, &plain(FsType::Ext4), &record, FormatPermit::of_blank(&proof)).await;
    assert!(matches!(first, Err(FormatError::NoLongerBlank { .. })), "{first:?}");
    assert!(!has_record(&disk), "a failed format left a record");
    let second = format_again(&disk, FsType::Ext4).await;
    assert_eq!(disk.device.read_at(8, 40_960).unwrap(), b"precious", "{second:?}");
    assert!(second.is_none(), "{second:?}");
}

#[test]
fn mkfs_that_cannot_be_started_leaves_no_record() {
    with_disk(async |disk| {
        let _replaced = ReplacedTool::by("mke2fs", "neither a program nor a script").unwrap();
        let outcome = format_blank(disk, &plain(FsType::Ext4)).await;
        assert!(matches!(outcome, Err(FormatError::Mkfs(_))), "{outcome:?}");
        assert!(!has_record(disk));
    });
}

#[tokio::test]
async fn mkfs_that_exits_with_an_error_leaves_no_record() {
    for fs_type in [FsType::Ext4, FsType::Xfs] {
        let disk = Disk::new(600 * MIB);
        // No mkfs accepts this block size.
        let options = FormatOptions { block_size: SizeWord::parse("3").unwrap(), ..FormatOptions::default() };
        let outcome = format_blank(&disk, &FormatSpec { fs_type, options }).await;
        assert!(matches!(outcome, Err(FormatError::Mkfs(_))), "{outcome:?}");
        assert!(!has_record(&disk), "{fs_type}");
        disk.device.write_at(b"precious", 40_960).unwrap();
        assert!(format_again(&disk, fs_type).await.is_none());
        assert_eq!(disk.device.read_at(8, 40_960).unwrap(), b"precious");
    }
}

#[tokio::test]
async fn eight_blank_volumes_are_formatted_concurrently() {
    let disks: Vec<_> = (0..8).map(|_| Disk::new(64 * MIB)).collect();
    let state = tempfile::tempdir().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for disk in disks {
        let config = crate::disk::config(state.path(), disk.device.directory());
        tasks.spawn(async move {
            let mounter = ebs_mounter::Mounter::new(config).unwrap();
            let device = mounter.find(&disk.query()).await.unwrap();
            let Contents::Blank(proof) = mounter.probe(&device).await.unwrap() else { panic!("not blank") };
            let record = disk.record(FsType::Ext4).await;
            mounter.format(&device, &plain(FsType::Ext4), &record, FormatPermit::of_blank(&proof)).await
        });
    }
    let failed: Vec<_> = tasks.join_all().await.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{} of 8 failed: {failed:?}", failed.len());
}

#[test]
fn interrupted_format_is_repeated_only_with_its_record() {
    with_disk(async |disk| {
        let record = interrupted(disk, FsType::Ext4).await;
        // An incomplete ext4: tables are written, the superblock is not.
        disk.device.write_at(&[0xff; 4096], 12 * 4096).unwrap();
        let contents = disk.contents().await;
        let other = FormatRecord { attach_time: Some("2026-11-21T18:00:00Z".to_owned()), ..record.clone() };
        assert_eq!(other.permit_redo(&record, &contents), None);
        let permit = record.permit_redo(&record, &contents).expect("permission to format again");
        let device = disk.find().await;
        disk.mounter.format(&device, &plain(FsType::Ext4), &record, permit).await.unwrap();
        disk.mounter.forget_format(&disk.volume).await.unwrap();
        assert_eq!(disk.mounter.interrupted_format(&device).await, None);
        assert!(matches!(disk.contents().await, Contents::Filesystem(superblock) if superblock.is_complete()));
    });
}

#[test]
fn redo_does_not_start_if_its_record_was_removed() {
    with_disk(async |disk| {
        let record = interrupted(disk, FsType::Ext4).await;
        disk.device.write_at(b"precious", 40_960).unwrap();
        let permit = record.permit_redo(&record, &disk.contents().await).expect("permission to format again");
        // As a concurrent raw publish does.
        disk.mounter.forget_format(&disk.volume).await.unwrap();
        let outcome = disk.mounter.format(&disk.find().await, &plain(FsType::Ext4), &record, permit).await;
        assert!(matches!(outcome, Err(FormatError::Record(_))), "{outcome:?}");
        assert_eq!(disk.device.read_at(8, 40_960).unwrap(), b"precious");
        assert!(!has_record(disk));
    });
}

/// Holds the disk like a mount or a tool that works on it.
fn held(disk: &Disk) -> std::fs::File {
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    std::fs::File::options().read(true).custom_flags(exclusive).open(disk.device.path()).unwrap()
}

/// An interrupted format waits for the holder and keeps its record.
#[test]
fn held_disk_is_not_formatted_and_a_redo_waits_for_it() {
    in_mount_namespace(|| async {
        for fs_type in [FsType::Ext4, FsType::Xfs] {
            let disk = Disk::new(600 * MIB);
            let holder = held(&disk);
            let outcome = format_blank(&disk, &plain(fs_type)).await;
            assert!(matches!(outcome, Err(FormatError::Held { .. })), "{outcome:?}");
            assert!(!has_record(&disk));
            drop(holder);
            interrupted(&disk, fs_type).await;
            disk.device.write_at(&[0xff; 4096], 12 * 4096).unwrap();
            // The mkfs of a killed driver continues without it.
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
fn record_of_a_format_that_never_ran_mkfs_permits_no_format() {
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
fn record_and_its_removal_survive_a_power_cut() {
    in_mount_namespace(|| async {
        // To simulate a power cut of the state directory, its file system loses its unwritten log.
        let below = Disk::new(600 * MIB);
        let (device, at) = below.mounted(FsType::Xfs, "below", &[]).await;
        let directory = at.as_path().display();
        let disk = Disk::new(64 * MIB);
        let state = at.as_path().join("state");
        let mounter = ebs_mounter::Mounter::new(crate::disk::config(&state, disk.device.directory())).unwrap();
        let Contents::Blank(proof) = disk.contents().await else { panic!("not blank") };
        let (found, record) = (disk.find().await, disk.record(FsType::Ext4).await);
        let cut = format!("/usr/sbin/xfs_io -x -c shutdown {directory}");
        let replaced = ReplacedTool::by_script("mke2fs", &format!("{cut}\nkill -9 $$")).unwrap();
        let spec = plain(FsType::Ext4);
        let outcome = mounter.format(&found, &spec, &record, FormatPermit::of_blank(&proof)).await;
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
        // Another program has completed a file system since.
        output_of("/usr/sbin/mke2fs", &["-q", "-F", "-L", "precious", disk.device.path().to_str().unwrap()]);
        let outcome = disk.mounter.format(&disk.find().await, &plain(FsType::Ext4), &record, permit).await;
        assert!(matches!(outcome, Err(FormatError::NoLongerBlank { .. })), "{outcome:?}");
        assert_eq!(disk.device.read_at(8, 1024 + 0x78).unwrap(), b"precious");
    });
}

#[test]
fn file_system_made_by_another_node_is_mounted_as_found() {
    with_disk(async |disk| {
        output_of("/usr/sbin/mke2fs", &["-q", "-t", "ext3", disk.device.path().to_str().unwrap()]);
        let Contents::Filesystem(superblock) = disk.contents().await else { panic!("no file system") };
        assert_eq!(superblock.fs_type(), FsType::Ext3);
        let at = disk.at("staging");
        at.create_directory().await.unwrap();
        disk.mounter.mount(&disk.find().await, &at, FsType::Ext3, &MountOptions::default()).await.unwrap();
    });
}

//! What is formatted, and above all what is not, on real block devices.

use crate::disk::{Disk, MIB, a_volume_id, output_of, plain};
use ebs_mounter::{
    Contents, FormatError, FormatOptions, FormatPermit, FormatRecord, FormatSpec, FsType, MountOptions, ProbeError,
    SizeWord,
};
use ebs_testkit::loop_device::LoopDevice;
use ebs_testkit::mount_namespace::in_mount_namespace;
use rand::RngExt;

const DUMPE2FS: &str = "/usr/sbin/dumpe2fs";
const XFS_INFO: &str = "/usr/sbin/xfs_info";

/// The words after a label in the output of dumpe2fs.
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

#[tokio::test]
async fn ext4_has_the_features_of_e2fsprogs_1_46_5_and_no_other() {
    let features = "has_journal ext_attr resize_inode dir_index filetype extent 64bit flex_bg sparse_super large_file \
                    huge_file dir_nlink extra_isize metadata_csum";
    features_of(FsType::Ext4, features).await;
}

#[tokio::test]
async fn ext3_has_a_journal_and_ext2_has_none() {
    let base = "ext_attr resize_inode dir_index filetype sparse_super large_file";
    features_of(FsType::Ext2, base).await;
    features_of(FsType::Ext3, &format!("has_journal {base}")).await;
}

/// The `name=value` words of xfs_info.
fn xfs_words(disk: &Disk) -> Vec<String> {
    let info = output_of(XFS_INFO, &[disk.device.path().to_str().unwrap()]);
    info.split(|c: char| c.is_whitespace() || c == ',').filter(|word| word.contains('=')).map(str::to_owned).collect()
}

#[tokio::test]
async fn xfs_has_the_features_of_xfsprogs_6_12_and_legacy_xfs_fewer() {
    let disk = Disk::new(600 * MIB);
    disk.format(&plain(FsType::Xfs)).await;
    let words = xfs_words(&disk);
    for word in ["crc=1", "finobt=1", "sparse=1", "rmapbt=1", "reflink=1", "bigtime=1", "inobtcount=1", "nrext64=1"] {
        assert!(words.iter().any(|have| have == word), "{word} is not in {words:?}");
    }
    let legacy = Disk::new(600 * MIB);
    let options = FormatOptions { legacy_xfs: true, ..FormatOptions::default() };
    legacy.format(&FormatSpec { fs_type: FsType::Xfs, options }).await;
    let words = xfs_words(&legacy);
    for word in ["crc=1", "reflink=0", "bigtime=0", "inobtcount=0", "nrext64=0"] {
        assert!(words.iter().any(|have| have == word), "{word} is not in {words:?}");
    }
}

#[tokio::test]
async fn bigalloc_and_encryption_come_together_with_their_sizes() {
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
async fn one_byte_at_a_random_place_of_the_ends_is_not_blank() {
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
async fn one_dirty_page_where_a_backup_superblock_would_be_is_not_blank() {
    let disk = Disk::new(600 * MIB);
    // ext with 4 KiB blocks, group 3; xfs, group 2 of 4; btrfs.
    for offset in [3 * 128 * MIB, 300 * MIB, 64 * MIB] {
        disk.device.write_at(&[0xa5; 4096], offset).unwrap();
        assert_eq!(disk.contents().await, Contents::Data { offset });
        disk.device.write_at(&[0; 4096], offset).unwrap();
    }
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
async fn any_signature_or_partition_table_is_foreign_and_stays_untouched() {
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

#[test]
fn a_device_that_cannot_be_read_is_an_error_and_never_blank() {
    in_mount_namespace(|| async {
        // A loop device over a file of a file system that is shut down answers every read with an I/O error.
        let below = Disk::new(600 * MIB);
        let (_, at) = below.mounted(FsType::Xfs, "below", &[]).await;
        let volume = a_volume_id();
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
async fn what_was_blank_and_is_not_any_more_is_not_formatted() {
    let disk = Disk::new(64 * MIB);
    let Contents::Blank(proof) = disk.contents().await else { panic!("not blank") };
    disk.device.write_at(b"precious", 8192).unwrap();
    let (device, record) = (disk.find().await, disk.record(FsType::Ext4).await);
    let permit = FormatPermit::of_blank(&proof);
    let outcome = disk.mounter.format(&device, &plain(FsType::Ext4), &record, permit).await;
    assert!(matches!(outcome, Err(FormatError::NoLongerBlank { .. })), "{outcome:?}");
    assert_eq!(disk.device.read_at(8, 8192).unwrap(), b"precious");
}

/// Leaves a record behind as an mkfs that did not get to its end does.
async fn interrupted(disk: &Disk, fs_type: FsType) -> FormatRecord {
    let Contents::Blank(proof) = disk.contents().await else { panic!("not blank") };
    let (device, record) = (disk.find().await, disk.record(fs_type).await);
    // No mkfs takes this block size: it fails after the record is written.
    let options = FormatOptions { block_size: SizeWord::parse("3").unwrap(), ..FormatOptions::default() };
    let spec = FormatSpec { fs_type, options };
    let outcome = disk.mounter.format(&device, &spec, &record, FormatPermit::of_blank(&proof)).await;
    assert!(matches!(outcome, Err(FormatError::Mkfs(_))), "{outcome:?}");
    assert_eq!(disk.mounter.interrupted_format(&device).await.unwrap(), Some(record.clone()));
    record
}

#[tokio::test]
async fn an_interrupted_format_is_done_again_with_its_record_and_only_so() {
    let disk = Disk::new(64 * MIB);
    let record = interrupted(&disk, FsType::Ext4).await;
    // Half of an ext4: tables are written, the superblock is not.
    disk.device.write_at(&[0xff; 4096], 12 * 4096).unwrap();
    let contents = disk.contents().await;
    let other = FormatRecord { attach_time: Some("2026-11-21T18:00:00Z".to_owned()), ..record.clone() };
    assert_eq!(other.permit_redo(&record, &contents), None);
    let permit = record.permit_redo(&record, &contents).expect("leave to format again");
    let device = disk.find().await;
    disk.mounter.format(&device, &plain(FsType::Ext4), &record, permit).await.unwrap();
    disk.mounter.forget_format(&disk.volume).await.unwrap();
    assert_eq!(disk.mounter.interrupted_format(&device).await.unwrap(), None);
    assert!(matches!(disk.contents().await, Contents::Filesystem(superblock) if superblock.is_complete()));
}

#[tokio::test]
async fn an_xfs_with_a_format_in_progress_is_made_again_with_its_record() {
    let disk = Disk::new(600 * MIB);
    let record = interrupted(&disk, FsType::Xfs).await;
    disk.mounter.forget_format(&disk.volume).await.unwrap();
    disk.format(&plain(FsType::Xfs)).await;
    disk.device.write_at(&[1], 126).unwrap();
    let contents = disk.contents().await;
    assert!(matches!(&contents, Contents::Filesystem(superblock) if !superblock.is_complete()), "{contents}");
    let permit = record.permit_redo(&record, &contents).expect("leave to format again");
    disk.mounter.format(&disk.find().await, &plain(FsType::Xfs), &record, permit).await.unwrap();
    assert!(matches!(disk.contents().await, Contents::Filesystem(superblock) if superblock.is_complete()));
}

#[tokio::test]
async fn a_redo_never_goes_over_a_complete_file_system() {
    let disk = Disk::new(64 * MIB);
    let record = interrupted(&disk, FsType::Ext4).await;
    disk.device.write_at(&[0xff; 4096], 12 * 4096).unwrap();
    let contents = disk.contents().await;
    let permit = record.permit_redo(&record, &contents).expect("leave to format again");
    // Somebody else has finished a file system since.
    output_of("/usr/sbin/mke2fs", &["-q", "-F", "-L", "precious", disk.device.path().to_str().unwrap()]);
    let outcome = disk.mounter.format(&disk.find().await, &plain(FsType::Ext4), &record, permit).await;
    assert!(matches!(outcome, Err(FormatError::NoLongerBlank { .. })), "{outcome:?}");
    assert_eq!(disk.device.read_at(8, 1024 + 0x78).unwrap(), b"precious");
}

#[test]
fn a_file_system_that_another_node_made_mounts_as_it_is() {
    in_mount_namespace(|| async {
        let disk = Disk::new(64 * MIB);
        output_of("/usr/sbin/mke2fs", &["-q", "-t", "ext3", disk.device.path().to_str().unwrap()]);
        let Contents::Filesystem(superblock) = disk.contents().await else { panic!("no file system") };
        assert_eq!(superblock.fs_type(), FsType::Ext3);
        let at = disk.at("staging");
        at.create_directory().await.unwrap();
        disk.mounter.mount(&disk.find().await, &at, FsType::Ext3, &MountOptions::default()).await.unwrap();
    });
}

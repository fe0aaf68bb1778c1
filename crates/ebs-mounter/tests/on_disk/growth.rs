//! Tests growth on real block devices, each test in its own mount namespace.

use std::time::Duration;

use crate::disk::{Disk, MIB, TIB, config, output_of, plain, unmount_all, with_mounted_disk};
use ebs_mounter::{
    Contents, Counts, Device, ExtSuperblock, FormatOptions, FormatSpec, FsType, GrowError, Growth, GrowthLimit,
    Headroom, Mounter, MounterConfig, SizeWord, Superblock,
};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::replaced_tool::ReplacedTool;
use ebs_types::Bytes;
use tokio::time::Instant;

const GIB: u64 = 1 << 30;

async fn ext_of(disk: &Disk) -> ExtSuperblock {
    match disk.contents().await {
        Contents::Filesystem(Superblock::Ext(ext)) => ext,
        other => panic!("{other}"),
    }
}

async fn headroom(disk: &Disk, device: &Device) -> Headroom {
    let superblock = Superblock::Ext(ext_of(disk).await);
    disk.mounter.headroom_of_unmounted(device, &superblock).await.unwrap()
}

/// Returns the sizes of a growth.
fn sizes(growth: Option<Growth>) -> Option<(u64, u64)> {
    growth.map(|growth| (growth.from, growth.to))
}

/// Replaces a tool by a script that records its arguments and succeeds.
fn noted(disk: &Disk, tool: &str) -> ReplacedTool {
    let notes = disk.place.path().join("noted");
    ReplacedTool::by_script(tool, &format!("echo \"{tool} $*\" >> {}", notes.display())).unwrap()
}

fn notes(disk: &Disk) -> Vec<String> {
    let text = std::fs::read_to_string(disk.place.path().join("noted")).unwrap_or_default();
    text.lines().map(|line| line.replace(disk.device.path().to_str().unwrap(), "DEVICE")).collect()
}

#[test]
fn ext_file_system_grows_before_it_is_mounted() {
    in_mount_namespace(|| async {
        for fs_type in [FsType::Ext2, FsType::Ext3, FsType::Ext4] {
            let disk = Disk::new(300 * MIB);
            disk.format(&plain(fs_type)).await;
            let device = disk.find().await;
            assert!(headroom(&disk, &device).await.is_used_up());
            disk.device.grow(600 * MIB).unwrap();
            let growth = headroom(&disk, &device).await.growth;
            assert_eq!(sizes(growth), Some((300 * MIB, 600 * MIB)));
            disk.mounter.grow_unmounted_ext(&device, &ext_of(&disk).await, growth.unwrap()).await.unwrap();
            let Contents::Filesystem(grown) = disk.contents().await else { panic!("no file system") };
            assert_eq!((grown.fs_type(), grown.bytes()), (fs_type, 600 * MIB));
            assert!(headroom(&disk, &device).await.is_used_up());
        }
    });
}

/// The kernel reports the size of a mounted xfs. statfs(2) excludes the log, and returns the limit of a project quota
/// if there is one.
#[test]
fn mounted_xfs_grows_while_it_is_written_to() {
    in_mount_namespace(|| async {
        let disk = Disk::new(600 * MIB);
        let (device, at) = disk.mounted(FsType::Xfs, "staging", &[]).await;
        let file = std::fs::File::create(at.as_path().join("file")).unwrap();
        let look = || disk.mounter.headroom_of_mounted(&device, at.as_path(), FsType::Xfs);
        let counts = Counts::read(at.as_path()).await.unwrap();
        assert!(counts.blocks * counts.block_size < 600 * MIB);
        assert_eq!((look().await.unwrap().size, look().await.unwrap().is_used_up()), (600 * MIB, true));
        disk.device.grow(900 * MIB).unwrap();
        assert!(disk.mounter.can_grow_mounted(FsType::Xfs));
        let growth = look().await.unwrap().growth;
        assert_eq!(sizes(growth), Some((600 * MIB, 900 * MIB)));
        std::io::Write::write_all(&mut &file, &[7; 65_536]).unwrap();
        disk.mounter.grow_mounted(&device, at.as_path(), FsType::Xfs, growth.unwrap()).await.unwrap();
        assert!(look().await.unwrap().is_used_up());
        std::io::Write::write_all(&mut &file, &[7; 65_536]).unwrap();
        drop(file);
        let outcome = disk.mounter.headroom_of_mounted(&device, at.as_path(), FsType::Ext4).await;
        assert!(matches!(outcome, Err(GrowError::NoSuperblock { .. })), "{outcome:?}");
        unmount_all(&disk.mounter, &at).await.unwrap();
        let Contents::Filesystem(grown) = disk.contents().await else { panic!("no file system") };
        assert_eq!(grown.bytes(), 900 * MIB);
    });
}

#[test]
fn mounted_ext_is_measured_only_as_ext() {
    with_mounted_disk(async |disk, device, at| {
        let look = async |fs_type| disk.mounter.headroom_of_mounted(device, at.as_path(), fs_type).await;
        assert_eq!(look(FsType::Ext4).await.unwrap().growth, None);
        disk.device.grow(128 * MIB).unwrap();
        assert_eq!(sizes(look(FsType::Ext4).await.unwrap().growth), Some((64 * MIB, 128 * MIB)));
        let outcome = look(FsType::Xfs).await;
        assert!(matches!(outcome, Err(GrowError::NoSuperblock { .. })), "{outcome:?}");
    });
}

/// It never overrides its own checks, mounted or not.
#[test]
fn resize2fs_is_started_without_force() {
    in_mount_namespace(|| async {
        let disk = Disk::new(300 * MIB);
        let (device, at) = disk.mounted(FsType::Ext4, "staging", &[]).await;
        disk.device.grow(600 * MIB).unwrap();
        let growth = headroom(&disk, &device).await.growth.unwrap();
        let replaced = [noted(&disk, "resize2fs"), noted(&disk, "e2fsck")];
        let outcome = disk.mounter.grow_mounted(&device, at.as_path(), FsType::Ext4, growth).await;
        assert!(matches!(outcome, Err(GrowError::NotGrown { .. })), "{outcome:?}");
        unmount_all(&disk.mounter, &at).await.unwrap();
        let outcome = disk.mounter.grow_unmounted_ext(&device, &ext_of(&disk).await, growth).await;
        assert!(matches!(outcome, Err(GrowError::NotGrown { .. })), "{outcome:?}");
        assert_eq!(notes(&disk), ["resize2fs DEVICE", "e2fsck -f -p DEVICE", "resize2fs DEVICE"]);
        drop(replaced);
    });
}

/// Returns an ext4 with clusters of this size.
fn with_clusters(bytes: &str) -> FormatSpec {
    let options = FormatOptions { bigalloc: true, cluster_size: Some(size_word(bytes)), ..FormatOptions::default() };
    FormatSpec { fs_type: FsType::Ext4, options }
}

fn size_word(text: &str) -> SizeWord {
    SizeWord::parse(text).unwrap().unwrap()
}

/// resize2fs rejects it without force, so nothing is started, not even the check.
#[test]
fn file_system_with_clusters_does_not_grow_unmounted() {
    in_mount_namespace(|| async {
        let disk = Disk::new(512 * MIB);
        disk.format(&with_clusters("16384")).await;
        disk.device.grow(GIB).unwrap();
        let device = disk.find().await;
        let found = headroom(&disk, &device).await;
        assert!(found.has_clusters);
        let replaced = [noted(&disk, "resize2fs"), noted(&disk, "e2fsck")];
        let growth = found.growth.unwrap();
        let outcome = disk.mounter.grow_unmounted_ext(&device, &ext_of(&disk).await, growth).await;
        assert!(matches!(outcome, Err(GrowError::Clusters)), "{outcome:?}");
        assert_eq!(notes(&disk), [] as [&str; 0]);
        drop(replaced);
    });
}

/// With clusters of 1 MiB a group is 32 GiB.
#[test]
fn headroom_equals_the_size_that_resize2fs_reaches() {
    in_mount_namespace(|| async {
        for (from, to, force, spec) in [
            (10 * GIB, 17 * GIB, "-f", with_clusters("1048576")),
            (GIB, GIB + 100 * MIB, "-p", plain(FsType::Ext4)),
            (GIB, GIB + 5 * MIB, "-p", plain(FsType::Ext4)),
            (GIB, 3 * GIB + 4096, "-p", plain(FsType::Ext3)),
        ] {
            let disk = Disk::new(from);
            disk.format(&spec).await;
            disk.device.grow(to).unwrap();
            let device = disk.find().await;
            let growth = headroom(&disk, &device).await.growth;
            let path = device.path().to_str().unwrap();
            output_of("/usr/sbin/e2fsck", &["-f", "-p", path]);
            output_of("/usr/sbin/resize2fs", &[force, path]);
            let made = ext_of(&disk).await.bytes();
            match growth {
                Some(growth) => assert_eq!((growth.from, growth.to), (from, made), "{to}"),
                // The driver ignores such a small size, and resize2fs leaves it unused too.
                None => assert_eq!((made, to), (from, GIB + 5 * MIB)),
            }
            assert!(headroom(&disk, &device).await.is_used_up(), "{to}");
        }
    });
}

/// Without 64-bit block numbers the file system grows to 2^32 - 1 blocks of a larger device. resize2fs fails without
/// this number.
#[test]
fn file_system_grows_to_the_limit_of_its_block_numbers() {
    in_mount_namespace(|| async {
        let disk = Disk::new(GIB);
        let path = disk.device.path().to_str().unwrap();
        let features = "^64bit,^resize_inode";
        output_of(
            "/usr/sbin/mke2fs",
            &["-q", "-F", "-t", "ext4", "-b", "2048", "-O", features, "-E", "nodiscard", path],
        );
        disk.device.grow(9 * TIB).unwrap();
        let device = disk.find().await;
        let found = headroom(&disk, &device).await;
        assert_eq!(sizes(found.growth), Some((GIB, 8 * TIB - 2048)));
        assert_eq!(found.limit, Some(GrowthLimit::BlockNumbers));
        let replaced = [noted(&disk, "resize2fs"), noted(&disk, "e2fsck")];
        let outcome = disk.mounter.grow_unmounted_ext(&device, &ext_of(&disk).await, found.growth.unwrap()).await;
        assert!(matches!(outcome, Err(GrowError::NotGrown { .. })), "{outcome:?}");
        assert_eq!(notes(&disk), ["e2fsck -f -p DEVICE", "resize2fs DEVICE 4294967295"]);
        drop(replaced);
    });
}

/// A growth that leaves less than one group unused is complete.
#[test]
fn growth_that_stops_early_is_an_error() {
    in_mount_namespace(|| async {
        let own = tempfile::tempdir().unwrap();
        let real = own.path().join("resize2fs");
        std::fs::copy("/usr/sbin/resize2fs", &real).unwrap();
        for (blocks, is_done) in
            [(896 * MIB / 4096, true), (800 * MIB / 4096, true), (700 * MIB / 4096, false), (0, false)]
        {
            let disk = Disk::new(300 * MIB);
            let options = FormatOptions { block_size: Some(size_word("4096")), ..FormatOptions::default() };
            disk.format(&FormatSpec { fs_type: FsType::Ext4, options }).await;
            disk.device.grow(896 * MIB).unwrap();
            let device = disk.find().await;
            let growth = headroom(&disk, &device).await.growth.unwrap();
            let script =
                if blocks == 0 { "exit 0".to_owned() } else { format!("exec {} \"$1\" {blocks}", real.display()) };
            let replaced = ReplacedTool::by_script("resize2fs", &script).unwrap();
            let outcome = disk.mounter.grow_unmounted_ext(&device, &ext_of(&disk).await, growth).await;
            drop(replaced);
            match outcome {
                Ok(()) => assert!(is_done, "{blocks}"),
                Err(GrowError::NotGrown { before, now, wanted, .. }) => {
                    assert!(!is_done, "{blocks}");
                    assert_eq!((before, now, wanted), (300 * MIB, (blocks * 4096).max(300 * MIB), 896 * MIB));
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    });
}

/// The wait ends with the kernel's event, and at the latest after the configured time.
#[test]
fn late_size_is_awaited() {
    in_mount_namespace(|| async {
        let disk = Disk::new(64 * MIB);
        let patient = |late_size| {
            let config = MounterConfig { late_size, ..config(disk.place.path(), disk.device.directory()) };
            Mounter::new(config).unwrap()
        };
        let device = disk.find().await;
        let short = patient(Duration::from_millis(20));
        let start = Instant::now();
        assert_eq!(short.size_of_at_least(&device, Bytes(64 * MIB)).await.unwrap(), Bytes(64 * MIB));
        assert_eq!(short.size_of_at_least(&device, Bytes(128 * MIB)).await.unwrap(), Bytes(64 * MIB));
        assert!(start.elapsed() >= Duration::from_millis(20));
        let long = patient(Duration::from_secs(600));
        let (size, ()) = tokio::join!(long.size_of_at_least(&device, Bytes(128 * MIB)), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            disk.device.grow(128 * MIB).unwrap();
        });
        assert_eq!(size.unwrap(), Bytes(128 * MIB));
        assert!(start.elapsed() < Duration::from_secs(600), "it waited until the time limit");
    });
}

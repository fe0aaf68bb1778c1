//! Tests growth on real block devices. Each test runs in its own mount namespace.

use crate::disk::{Disk, MIB, TIB, output_of, plain, unmount_all};
use ebs_mounter::{
    Contents, Counts, Device, ExtSuperblock, FormatOptions, FormatSpec, FsType, GrowError, Growth, GrowthLimit,
    Headroom, SizeWord, Superblock,
};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::replaced_tool::ReplacedTool;

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

fn sizes(growth: Option<Growth>) -> Option<(u64, u64)> {
    growth.map(|growth| (growth.from, growth.to))
}

/// Replaces a tool with a script that records its arguments and succeeds.
fn noted(disk: &Disk, tool: &str) -> ReplacedTool {
    let notes = disk.place.path().join("noted");
    ReplacedTool::by_script(tool, &format!("echo \"{tool} $*\" >> {}", notes.display())).unwrap()
}

fn notes(disk: &Disk) -> Vec<String> {
    let text = std::fs::read_to_string(disk.place.path().join("noted")).unwrap_or_default();
    text.lines().map(|line| line.replace(disk.device.path().to_str().unwrap(), "DEVICE")).collect()
}

/// The kernel reports the size of a mounted xfs. statfs(2) would exclude the log, and would return the limit of a
/// project quota if there is one.
#[test]
fn headroom_of_a_mounted_file_system_requires_its_real_type() {
    in_mount_namespace(|| async {
        for (fs_type, other, bytes) in [(FsType::Ext4, FsType::Xfs, 64 * MIB), (FsType::Xfs, FsType::Ext4, 600 * MIB)] {
            let disk = Disk::new(bytes);
            let (device, at) = disk.mounted(fs_type, "staging", &[]).await;
            let measure = async |fs_type| disk.mounter.headroom_of_mounted(&device, at.as_path(), fs_type).await;
            let found = measure(fs_type).await.unwrap();
            assert_eq!((found.size, found.is_used_up()), (bytes, true), "{fs_type}");
            let counts = Counts::read(at.as_path()).await.unwrap();
            assert!(counts.blocks * counts.block_size < bytes, "{fs_type}");
            disk.device.grow(2 * bytes).unwrap();
            assert_eq!(sizes(measure(fs_type).await.unwrap().growth), Some((bytes, 2 * bytes)), "{fs_type}");
            let outcome = measure(other).await;
            assert!(matches!(outcome, Err(GrowError::NoSuperblock { .. })), "{outcome:?}");
        }
    });
}

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

fn with_clusters(bytes: &str) -> FormatSpec {
    let options = FormatOptions { bigalloc: true, cluster_size: Some(size_word(bytes)), ..FormatOptions::default() };
    FormatSpec { fs_type: FsType::Ext4, options }
}

fn size_word(text: &str) -> SizeWord {
    SizeWord::parse(text).unwrap().unwrap()
}

#[test]
fn predicted_growth_equals_the_growth_by_resize2fs() {
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
                // The driver ignores such a small difference, and resize2fs also leaves it unused.
                None => assert_eq!((made, to), (from, GIB + 5 * MIB)),
            }
            assert!(headroom(&disk, &device).await.is_used_up(), "{to}");
        }
    });
}

/// Without 64-bit block numbers, the file system grows to 2^32 - 1 blocks of a larger device. resize2fs fails unless it
/// gets this number.
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

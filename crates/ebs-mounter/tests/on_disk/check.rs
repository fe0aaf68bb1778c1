//! Tests which errors of ext file systems are repaired automatically.

use ebs_mounter::{CheckError, FsType, GrowError};
use ebs_testkit::ext_damage::{Damage, debugfs, set_error_state};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::replaced_tool::ReplacedTool;

use crate::disk::{Disk, MIB, TIB, output_of, plain, with_disk};

/// True if the root directory is still the regular file of [`Damage::RootIsAFile`]. `e2fsck -y` would create a new
/// directory.
fn is_untouched(disk: &Disk) -> bool {
    debugfs(&disk.device, "stat <2>").unwrap().contains("Type: regular")
}

/// The superblock requires the check.
#[test]
fn required_check_makes_no_decision_for_a_person() {
    with_disk(async |disk| {
        disk.format(&plain(FsType::Ext4)).await;
        Damage::RootIsAFile.inflict(&disk.device).unwrap();
        set_error_state(&disk.device).unwrap();
        let (device, contents) = (disk.find().await, disk.contents().await);
        let ebs_mounter::Contents::Filesystem(superblock) = contents else { panic!("{contents}") };
        let checked = disk.mounter.check_if_needed(&device, &superblock).await;
        assert!(matches!(checked, Err(CheckError::Uncorrected(_))), "{checked:?}");
        assert!(is_untouched(disk));
    });
}

/// The file system does not grow.
#[test]
fn check_before_growth_makes_no_decision_for_a_person() {
    with_disk(async |disk| {
        let superblock = disk.format(&plain(FsType::Ext4)).await;
        Damage::RootIsAFile.inflict(&disk.device).unwrap();
        disk.device.grow(256 * MIB).unwrap();
        let device = disk.find().await;
        let headroom = disk.mounter.headroom_of_unmounted(&device, &superblock).await.unwrap();
        let ebs_mounter::Superblock::Ext(ext) = &superblock else { panic!("{superblock:?}") };
        let grown = disk.mounter.grow_unmounted_ext(&device, ext, headroom.growth.expect("room to grow")).await;
        assert!(matches!(grown, Err(GrowError::Check(CheckError::Uncorrected(_)))), "{grown:?}");
        assert!(is_untouched(disk));
    });
}

/// The kernel kills a check of a large file system for its memory: the driver checks again with the maps that need less.
/// It repeats neither a check that ended by itself nor one that had these maps.
#[test]
fn killed_check_of_a_large_file_system_runs_with_less_memory() {
    in_mount_namespace(|| async {
        for (bytes, killed, expected) in [
            (2 * TIB, "trees", &["trees", "bits"][..]),
            (2 * TIB, "none", &["trees"]),
            (2 * TIB, "trees|bits", &["trees", "bits"]),
            (64 * MIB, "bits", &["bits"]),
        ] {
            let disk = Disk::new(bytes);
            let path = disk.device.path().to_str().unwrap();
            let few_inodes = "67108864";
            output_of("/usr/sbin/mke2fs", &["-q", "-F", "-b", "4096", "-i", few_inodes, "-E", "nodiscard", path]);
            let notes = disk.place.path().join("maps");
            let script = format!(
                "maps=trees; [ -z \"$E2FSCK_CONFIG\" ] || maps=bits\necho $maps >> {}\ncase $maps in {killed}) kill -9 $$ ;; esac",
                notes.display()
            );
            let replaced = ReplacedTool::by_script("e2fsck", &script).unwrap();
            let checked = disk.mounter.check(&disk.find().await).await;
            drop(replaced);
            let maps = std::fs::read_to_string(&notes).unwrap();
            assert_eq!(maps.lines().collect::<Vec<_>>(), expected, "{killed}");
            let is_interrupted = match checked {
                Ok(()) => false,
                Err(CheckError::Interrupted(_)) => true,
                Err(other) => panic!("{killed}: {other:?}"),
            };
            assert_eq!(is_interrupted, killed.contains("bits"), "{killed}");
        }
    });
}

//! Tests the check of a file system by e2fsck.

use ebs_mounter::CheckError;
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::replaced_tool::ReplacedTool;

use crate::disk::{Disk, MIB, TIB, output_of};

/// When the kernel kills e2fsck on a large file system for its memory use, the driver repeats the check with bitmaps,
/// which need less. It does not repeat a check that ended on its own or that already used bitmaps.
#[test]
fn killed_check_of_a_large_disk_is_repeated_with_less_memory() {
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

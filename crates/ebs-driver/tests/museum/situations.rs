//! Tests disks that must not be formatted because of an event, not only because of their contents.

use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::PathBuf;

use csi_proto::csi::NodeStageVolumeRequest;
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::replaced_tool::ReplacedTool;
use rustix::fs::{CWD, FileType, Mode, major, makedev, minor, mknodat};
use tonic::Code;

use crate::exhibit::{GIB, KIB, MIB};
use crate::node::{Node, block, context, mount, refused, with_node};
use crate::visit::{run, zero};

const AT: u64 = 40 * KIB;
const PRECIOUS: &[u8] = b"precious";
const SIZE: &str = "ebs.csi.aws.com/size-gib";
const ATTACHED: &str = "ebs.csi.aws.com/attach-time";

/// Calls NodeStageVolume, and checks that the driver refuses with these words and changes no byte of the disk.
async fn is_refused(node: &Node, request: NodeStageVolumeRequest, code: Code, words: &[&str]) {
    let before = node.disk.fingerprint().unwrap();
    let outcome = node.stage(request).await;
    assert_eq!(before, node.disk.fingerprint().unwrap(), "the disk has changed: {outcome:?}");
    assert!(node.mounts_at("staging").await.is_empty());
    refused(outcome, code, words);
}

#[test]
fn disk_smaller_than_its_volume_is_not_formatted() {
    with_node(async |node| {
        let mut request = node.stage_request("ext4", &[]);
        request.publish_context.insert(SIZE.to_owned(), "1".to_owned());
        is_refused(node, request, Code::FailedPrecondition, &["less than the volume"]).await;
        let mut raw = node.publish_request(block());
        raw.publish_context = context(&[("devicePath", "/dev/xvdaa"), (SIZE, "1")]);
        refused(node.publish(raw).await, Code::FailedPrecondition, &["less than the volume"]);
        assert!(!node.path("target").exists());
    });
}

/// The driver returns the kernel's I/O error.
#[test]
fn partly_unreadable_disk_is_not_formatted() {
    in_mount_namespace(|| async {
        let size = 600 * MIB;
        // A loop device returns I/O errors beyond the end of its truncated file.
        for left in [0, 512, 4096, MIB - 100, 16 * MIB, 128 * MIB, size / 2 + 5000, size - MIB, size - 4096] {
            let node = Node::new(size);
            std::fs::File::options().write(true).open(node.disk.backing_file()).unwrap().set_len(left).unwrap();
            let outcome = node.stage(node.stage_request("ext4", &[])).await;
            refused(outcome, Code::Internal, &["never formats an unreadable device"]);
            assert_eq!(std::fs::metadata(node.disk.backing_file()).unwrap().len(), left, "{left}");
            assert_eq!(std::fs::metadata(node.disk.backing_file()).unwrap().blocks(), 0, "{left}: it was written to");
        }
    });
}

#[test]
fn read_only_disk_is_not_formatted() {
    with_node(async |node| {
        run("blockdev", &["--setro"], node.disk.path());
        is_refused(node, node.stage_request("ext4", &[]), Code::FailedPrecondition, &["read-only"]).await;
        assert!(!record_file(node).exists());
        run("blockdev", &["--setrw"], node.disk.path());
        is_refused(node, node.stage_request("ext4", &["ro"]), Code::FailedPrecondition, &["read-only"]).await;
        node.staged("ext4").await;
    });
}

fn record_file(node: &Node) -> PathBuf {
    node.path("state").join(format!("format-{}", node.volume))
}

/// The format record permits formatting only if it is unchanged, and only for the same disk in the same attachment. It
/// does not permit formatting if the attachment, kernel boot, volume, size or file system differs, or if the record is
/// truncated.
#[test]
fn altered_or_foreign_record_does_not_permit_a_format() {
    with_node(async |node| {
        let replaced = ReplacedTool::by_script("mke2fs", "kill -9 $$").unwrap();
        refused(node.stage(node.stage_request("ext4", &[])).await, Code::Internal, &["signal 9"]);
        drop(replaced);
        let kept = std::fs::read_to_string(record_file(node)).unwrap();
        node.disk.write_at(PRECIOUS, AT).unwrap();
        let line = |key: &str| kept.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
        let with = |key: &str, value: &str| kept.replace(&line(key), &format!("{key}={value}"));
        let others = [
            with("volume", "vol-0123456789abcdef0"),
            with("partition", "1"),
            with("bytes", "1073741824"),
            with("fs", "xfs"),
            with("fs", "ext3"),
            with("attach-time", "2026-11-21T17:31:01Z"),
            with("attach-time", "unknown"),
            with("boot", "00000000-0000-0000-0000-000000000000"),
            with("diskseq", "1"),
            with("diskseq", "unknown"),
            with("state", "checking"),
            // A record of an older driver version has no kernel boot, disk or state.
            ["boot=", "diskseq=", "state="]
                .iter()
                .fold(kept.clone(), |kept, key| kept.replace(&(line(key) + "\n"), "")),
            kept.replace("end\n", ""),
            kept[..kept.len() / 2].to_owned(),
            String::new(),
        ];
        for other in others {
            std::fs::write(record_file(node), &other).unwrap();
            is_refused(node, node.stage_request("ext4", &[]), Code::FailedPrecondition, &["not blank", "40960"]).await;
        }
        std::fs::write(record_file(node), &kept).unwrap();
        for time in ["2026-11-21T17:31:01Z", ""] {
            let mut request = node.stage_request("ext4", &[]);
            request.publish_context.insert(ATTACHED.to_owned(), time.to_owned());
            if time.is_empty() {
                request.publish_context.remove(ATTACHED);
            }
            is_refused(node, request, Code::FailedPrecondition, &["not blank", "40960"]).await;
        }
        // Cross-check: with the unchanged record, the driver formats the disk.
        node.staged("ext4").await;
    });
}

#[test]
fn record_does_not_permit_a_format_over_foreign_data() {
    with_node(async |node| {
        let replaced = ReplacedTool::by_script("mke2fs", "kill -9 $$").unwrap();
        refused(node.stage(node.stage_request("ext4", &[])).await, Code::Internal, &["signal 9"]);
        drop(replaced);
        node.disk.write_at(b"LUKS\xba\xbe\0\x02", 0).unwrap();
        is_refused(node, node.stage_request("ext4", &[]), Code::FailedPrecondition, &["LUKS encryption"]).await;
        assert!(record_file(node).exists(), "the record is the next call's to judge");
    });
}

/// Creates directories that replace /dev and /sys, in which the node's disk is `nvme1n1`.
fn as_nvme(node: &Node) -> PathBuf {
    let machine = node.path("machine");
    let disk = machine.join("sys/devices/nvme1n1");
    for directory in ["dev/disk/by-id", "sys/block", "sys/dev/block", "sys/devices/nvme1n1/device"] {
        std::fs::create_dir_all(machine.join(directory)).unwrap();
    }
    let number = std::fs::metadata(node.disk.path()).unwrap().rdev();
    let (major, minor) = (major(number), minor(number));
    std::fs::write(disk.join("device/serial"), node.volume.serial()).unwrap();
    std::fs::write(disk.join("dev"), format!("{major}:{minor}\n")).unwrap();
    symlink(&disk, machine.join("sys/block/nvme1n1")).unwrap();
    symlink(&disk, machine.join(format!("sys/dev/block/{major}:{minor}"))).unwrap();
    add_node(&machine, "nvme1n1", node);
    machine
}

/// Adds a device node for a node's disk.
fn add_node(machine: &std::path::Path, name: &str, of: &Node) {
    let number = std::fs::metadata(of.disk.path()).unwrap();
    assert!(number.file_type().is_block_device());
    let device = makedev(major(number.rdev()), minor(number.rdev()));
    mknodat(CWD, machine.join("dev").join(name), FileType::BlockDevice, Mode::RUSR | Mode::WUSR, device).unwrap();
}

/// Either another disk takes over the disk's name, or the disk reports another identity. The driver formats neither.
#[test]
fn disk_swapped_between_proof_and_mkfs_is_not_formatted() {
    in_mount_namespace(|| async {
        for by_name in [true, false] {
            let (node, other) = (Node::new(64 * MIB), Node::new(64 * MIB));
            let machine = as_nvme(&node);
            other.disk.write_at(PRECIOUS, AT).unwrap();
            add_node(&machine, "nvme2n1", &other);
            let calls = node.again(|config| {
                (config.dev, config.sys) = (machine.join("dev"), machine.join("sys"));
                config.simulated_devices = None;
            });
            let dev = machine.join("dev");
            let dev = dev.display();
            // blkid runs last, after the proof has read the blank disk, so swap the disk then.
            let swap = if by_name {
                format!("mv {dev}/nvme2n1 {dev}/nvme1n1")
            } else {
                format!("echo {} > {}/sys/devices/nvme1n1/device/serial", other.volume.serial(), machine.display())
            };
            let replaced = ReplacedTool::by_script("blkid", &format!("{swap}\nexit 2")).unwrap();
            let before = (node.disk.fingerprint().unwrap(), other.disk.fingerprint().unwrap());
            let outcome = calls.stage(node.stage_request("ext4", &[])).await;
            drop(replaced);
            assert_eq!(before, (node.disk.fingerprint().unwrap(), other.disk.fingerprint().unwrap()), "{outcome:?}");
            refused(outcome, Code::FailedPrecondition, &["is no longer volume"]);
            assert!(!record_file(&node).exists(), "a refusal does not permit a format");
        }
    });
}

#[test]
fn disk_written_to_after_the_proof_is_not_formatted() {
    with_node(async |node| {
        let write =
            format!("printf precious | dd of={} bs=4096 seek=10 conv=notrunc status=none", node.disk.path().display());
        let replaced = ReplacedTool::by_script("blkid", &format!("{write}\nexit 2")).unwrap();
        let outcome = node.stage(node.stage_request("ext4", &[])).await;
        drop(replaced);
        refused(outcome, Code::FailedPrecondition, &["was blank and now holds", "40960"]);
        assert_eq!(node.disk.read_at(PRECIOUS.len(), AT).unwrap(), PRECIOUS);
        assert!(!record_file(node).exists(), "a refusal does not permit a format");
        is_refused(node, node.stage_request("ext4", &[]), Code::FailedPrecondition, &["not blank", "40960"]).await;
    });
}

/// The kernel refuses to mount a file system with only this superblock.
#[test]
fn disk_with_only_an_xfs_superblock_is_not_formatted() {
    in_mount_namespace(|| async {
        let node = Node::new(GIB);
        run("mkfs.xfs", &["-q", "-K"], node.disk.path());
        let first = node.disk.read_at(128, 0).unwrap();
        zero(&node, 512, GIB - 512);
        refused(
            node.stage(node.stage_request("xfs", &[])).await,
            Code::Internal,
            &["the kernel rejected the mount", "xfs"],
        );
        // The UUID and geometry are unchanged. The kernel counts mount attempts in another part of the superblock.
        assert_eq!(node.disk.read_at(128, 0).unwrap(), first);
        assert!(!record_file(&node).exists());
    });
}

/// A file in the file system, or a boot sector, may contain the signature of another format.
#[test]
fn complete_file_system_is_mounted_despite_other_signatures() {
    in_mount_namespace(|| async {
        for (asked, tool, args) in [("ext4", "mke2fs", ["-q", "-t", "ext4"]), ("xfs", "mkfs.xfs", ["-q", "-K", "-f"])] {
            let node = Node::new(GIB);
            run(tool, &args, node.disk.path());
            node.disk.write_at(b"EFI PART", GIB - 512).unwrap();
            node.disk.write_at(b"\xfc\x4e\x2b\xa9", GIB - 8 * KIB).unwrap();
            if asked == "ext4" {
                // Write the code of a boot loader, which ends with the signature of a boot sector.
                node.disk.write_at(&[0xb8; 510], 0).unwrap();
                node.disk.write_at(b"\x55\xaa", 510).unwrap();
            }
            let uuid = if asked == "ext4" { node.ext_uuid() } else { node.disk.read_at(16, 32).unwrap() };
            let mut request = node.stage_request(asked, &[]);
            request.volume_capability = Some(mount(asked, &[]));
            node.stage(request).await.expect("a staged volume");
            let now = if asked == "ext4" { node.ext_uuid() } else { node.disk.read_at(16, 32).unwrap() };
            assert_eq!(uuid, now, "{asked}: it is another file system");
            node.unstage().await.unwrap();
        }
    });
}

//! Tests whole lifecycles of volumes: each file system with each format option of a StorageClass. Several pods use a
//! volume. The driver unstages and stages it again, and each time the volume has the same data.

use ebs_driver::context::FormatKey;
use ebs_driver::node::NodeOptions;
use ebs_mounter::FsType;
use ebs_testkit::loop_device::LoopDevice;

use crate::prelude::*;

const BOUND: Duration = Duration::from_secs(30);
/// The number of bytes that a pod writes.
const DATA: u64 = MIB;

/// The parameters of a new file system.
struct Asked {
    /// The StorageClass options that request this file system.
    options: Vec<(&'static str, &'static str)>,
    /// Words that dumpe2fs or xfs_info must print.
    shows: &'static str,
}

fn asked(fs_type: &str) -> Vec<Asked> {
    let rows = include_str!("format_options.txt").lines().filter(|row| !row.starts_with('#'));
    let rows = rows.map(|row| row.splitn(3, '|').map(str::trim).collect::<Vec<_>>());
    let of_type = rows.filter(|row| row[0].split(' ').any(|known| known == fs_type));
    let asked = of_type.map(|row| {
        let options = row[1].split_whitespace().filter_map(|option| option.split_once('=')).collect();
        Asked { options, shows: row[2] }
    });
    asked.collect()
}

/// The test stages, publishes, writes, unstages and stages each volume again, and finds the same data.
#[test]
fn ext2_with_every_format_option_keeps_its_data() {
    lives("ext2");
}

#[test]
fn ext3_with_every_format_option_keeps_its_data() {
    lives("ext3");
}

#[test]
fn ext4_with_every_format_option_keeps_its_data() {
    lives("ext4");
}

#[test]
fn xfs_with_every_format_option_keeps_its_data() {
    lives("xfs");
}

#[test]
fn legacy_xfs_keeps_its_data() {
    in_mount_namespace(|| async {
        let legacy = NodeOptions { legacy_xfs: true, ..options() };
        for asked in asked("legacy-xfs") {
            let mut node = Node::new(size("xfs"));
            node.calls.service = node.again_as((legacy.clone(), Operations::new()), |_| {}).service;
            life(&node, "xfs", &asked).await;
        }
    });
}

/// Fails if a format option is missing from these tests.
#[test]
fn every_format_option_is_tested() {
    for fs_type in [FsType::Ext2, FsType::Ext3, FsType::Ext4, FsType::Xfs] {
        let asked = asked(fs_type.as_str());
        for key in FormatKey::ALL.into_iter().filter(|key| key.file_systems().contains(&fs_type)) {
            let mut options = asked.iter().flat_map(|asked| &asked.options);
            assert!(options.any(|(name, _)| *name == key.as_str()), "{key} of {fs_type}");
        }
    }
}

fn lives(fs_type: &'static str) {
    in_mount_namespace(move || async move {
        for asked in asked(fs_type) {
            life(&Node::new(size(fs_type)), fs_type, &asked).await;
        }
    });
}

/// Returns roughly the smallest size that mkfs accepts.
fn size(fs_type: &str) -> u64 {
    if fs_type == "xfs" { 320 * MIB } else { 64 * MIB }
}

async fn life(node: &Node, fs_type: &str, asked: &Asked) {
    let mut request = node.stage_request(fs_type, &[]);
    request.volume_context.extend(context(&asked.options));
    let what = format!("{fs_type} {:?}", asked.options);
    node.stage(request.clone()).await.expect(&what);
    let made = described(node, fs_type);
    let words: String = made.split_whitespace().flat_map(|word| [word, " "]).collect();
    assert!(words.contains(&format!("{} ", asked.shows)), "{what}: {:?} is not in: {made}", asked.shows);
    assert_eq!(node.mounts_at("staging").await[0].fs_type, fs_type, "{what}");
    let publish = node.publish_request(mount(fs_type, &[]));
    node.publish(publish.clone()).await.expect(&what);
    let written = content::write_file(&node.path("target/data"), 7, DATA).unwrap();
    let_go(node).await;
    // Stage the volume again, as after a move to another node and back.
    node.stage(request).await.expect(&what);
    node.publish(publish).await.expect(&what);
    assert_eq!(content::hash_file(&node.path("target/data")).unwrap(), written, "{what}");
    assert_eq!(described(node, fs_type), made, "{what}: formatted again");
    let_go(node).await;
}

async fn let_go(node: &Node) {
    node.unpublish(node.text("target")).await.expect("unpublished");
    node.unstage().await.expect("unstaged");
    assert!(!node.path("target").exists() && !node.path("staging").exists());
}

/// Returns what the tools print about the file system, without the values that change with use.
fn described(node: &Node, fs_type: &str) -> String {
    if fs_type == "xfs" {
        return run_tool("/usr/sbin/xfs_info", &[&node.text("staging")], BOUND).unwrap();
    }
    let text = run_tool("/usr/sbin/dumpe2fs", &["-h", node.disk.path().to_str().unwrap()], BOUND).unwrap();
    const FIXED: [&str; 9] = [
        "Filesystem UUID",
        "Filesystem features",
        "Inode count",
        "Block count",
        "Reserved block count",
        "Block size",
        "Cluster size",
        "Inode size",
        "Filesystem created",
    ];
    // While the file system is mounted, the kernel marks its journal as in need of recovery.
    let lines = text.lines().filter(|line| FIXED.iter().any(|name| line.starts_with(&format!("{name}:"))));
    lines.map(|line| format!("{}\n", line.replace(" needs_recovery", ""))).collect()
}

/// Each pod reads what another pod writes, a read-only pod cannot write, and when one pod leaves, the others keep the
/// volume.
#[test]
fn several_pods_share_a_volume_independently() {
    in_mount_namespace(|| async {
        for fs_type in ["ext4", "xfs"] {
            let node = Node::new(size(fs_type));
            node.staged(fs_type).await;
            let request = |target: &str, readonly| csi::NodePublishVolumeRequest {
                target_path: node.text(target),
                readonly,
                ..node.publish_request(mount(fs_type, &[]))
            };
            for (target, readonly) in [("first", false), ("second", false), ("reader", true)] {
                node.publish(request(target, readonly)).await.unwrap();
            }
            let written = content::write_file(&node.path("first/data"), 3, DATA).unwrap();
            for target in ["second", "reader"] {
                assert_eq!(content::hash_file(&node.path(target).join("data")).unwrap(), written, "{target}");
            }
            let refusal = std::fs::write(node.path("reader/data"), "x").unwrap_err();
            assert_eq!(refusal.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
            node.unpublish(node.text("first")).await.unwrap();
            refused(node.unstage().await, Code::FailedPrecondition, &[&node.text("second"), &node.text("reader")]);
            std::fs::write(node.path("second/more"), "x").unwrap();
            assert_eq!(content::hash_file(&node.path("reader/data")).unwrap(), written);
            for target in ["second", "reader"] {
                node.unpublish(node.text(target)).await.unwrap();
            }
            node.unstage().await.unwrap();
        }
    });
}

/// The data is the same at several targets, and survives from one NodePublishVolume call to the next.
#[test]
fn raw_block_volume_keeps_its_data() {
    with_node(async |node| {
        let stage = csi::NodeStageVolumeRequest { volume_capability: Some(block()), ..node.stage_request("", &[]) };
        let request = |target: &str| csi::NodePublishVolumeRequest {
            target_path: node.text(target),
            ..node.publish_request(block())
        };
        node.stage(stage.clone()).await.unwrap();
        for target in ["first", "second"] {
            node.publish(request(target)).await.unwrap();
        }
        let written = content::write_device(&node.path("first"), 5, 8 * DATA).unwrap();
        assert_eq!(content::hash_start(&node.path("second"), 8 * DATA).unwrap(), written);
        node.unpublish(node.text("first")).await.unwrap();
        assert_eq!(content::hash_start(&node.path("second"), 8 * DATA).unwrap(), written);
        node.unpublish(node.text("second")).await.unwrap();
        node.unstage().await.unwrap();
        node.stage(stage).await.unwrap();
        node.publish(request("first")).await.unwrap();
        assert_eq!(content::hash_start(&node.path("first"), 8 * DATA).unwrap(), written);
        node.unpublish(node.text("first")).await.unwrap();
        node.unstage().await.unwrap();
        assert!(!node.path("first").exists() && !node.path("staging").exists());
    });
}

/// The snapshot's source volume is mounted at the same time.
#[test]
fn larger_restore_has_the_source_data_and_fills_its_disk() {
    in_mount_namespace(|| async {
        for (fs_type, bytes) in [("ext2", 160 * MIB), ("ext3", 160 * MIB), ("ext4", 160 * MIB), ("xfs", 320 * MIB)] {
            let (source, restored) = (Node::new(bytes), Node::new(2 * bytes));
            source.staged(fs_type).await;
            let written = content::write_file(&source.path("staging/data"), 9, DATA).unwrap();
            source.unstage().await.unwrap();
            copy(&source.disk, &restored.disk);
            source.staged(fs_type).await;
            let mut request = restored.stage_request(fs_type, &[]);
            request.publish_context.insert("ebs.csi.aws.com/source".to_owned(), "snapshot".to_owned());
            restored.stage(request).await.expect(fs_type);
            assert_eq!(content::hash_file(&restored.path("staging/data")).unwrap(), written, "{fs_type}");
            let total = restored.stats(restored.text("staging")).await.unwrap()[0].total;
            assert!(u64::try_from(total).unwrap() > bytes * 7 / 4, "{fs_type} has {total} bytes");
        }
    });
}

/// Copies a disk as EC2 does with a snapshot: the whole disk to the beginning of the other one. Skips holes.
fn copy(from: &LoopDevice, to: &LoopDevice) {
    let length = content::size_of(from.path()).unwrap();
    let mut at = 0;
    while at < length {
        let chunk = from.read_at(usize::try_from(MIB).unwrap(), at).unwrap();
        if chunk.iter().any(|byte| *byte != 0) {
            to.write_at(&chunk, at).unwrap();
        }
        at += MIB;
    }
}

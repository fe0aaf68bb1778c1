//! Tests that volumes in use can move from the reference driver to this driver and back without affecting their pods.
//! This driver takes over the mounts of the reference driver, and leaves its own mounts in the form that the reference
//! driver expects.
//!
//! The tests run the same programs as the reference driver, with the same arguments.

use std::os::unix::fs::PermissionsExt;

use csi_proto::csi::volume_usage::Unit;

use crate::growth::may_grow_mounted_ext;
use crate::node_local::{self, as_local};
use crate::prelude::*;

const BOUND: Duration = Duration::from_secs(30);
const SIZE: u64 = 320 * MIB;
/// The publish context of a volume that the reference driver attached. It contains only the device name.
const CONTEXT: [(&str, &str); 1] = [("devicePath", "/dev/xvdaa")];

fn run(program: &str, args: &[&str]) -> String {
    run_tool(program, args, BOUND).unwrap()
}

/// Plays the reference driver on a test's node.
struct Reference<'a> {
    node: &'a Node,
    fs_type: &'a str,
}

impl Reference<'_> {
    fn device(&self) -> &str {
        self.node.disk.path().to_str().unwrap()
    }

    fn format(&self) {
        match self.fs_type {
            "xfs" => run("/usr/sbin/mkfs.xfs", &["-f", self.device()]),
            ext => run(&format!("/usr/sbin/mkfs.{ext}"), &["-F", "-m0", self.device()]),
        };
    }

    fn stage(&self) {
        std::fs::create_dir(self.node.path("staging")).unwrap();
        let options = if self.fs_type == "xfs" { "nouuid,defaults" } else { "defaults" };
        run("/usr/bin/mount", &["-t", self.fs_type, "-o", options, self.device(), &self.node.text("staging")]);
    }

    fn publish(&self, target: &str, flags: &str) {
        let (staging, target) = (self.node.text("staging"), self.node.text(target));
        std::fs::create_dir_all(&target).unwrap();
        run("/usr/bin/mount", &["-t", self.fs_type, "-o", "bind", &staging, &target]);
        let again = format!("bind,remount{flags}");
        run("/usr/bin/mount", &["-t", self.fs_type, "-o", &again, &staging, &target]);
    }

    /// Does what the reference driver's NodeUnpublishVolume and NodeUnstageVolume do.
    async fn clean_up(&self, path: &str) {
        unmount(self.node.path(path)).await;
        std::fs::remove_dir(self.node.path(path)).unwrap();
    }
}

fn stage_request(node: &Node, fs_type: &str) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest { publish_context: context(&CONTEXT), ..node.stage_request(fs_type, &[]) }
}

fn publish_request(node: &Node, fs_type: &str, target: &str) -> csi::NodePublishVolumeRequest {
    let request = node.publish_request(mount(fs_type, &[]));
    csi::NodePublishVolumeRequest { target_path: node.text(target), ..request }
}

/// Repeated calls change nothing, more pods can use the volume, and statistics, growth and NodeUnstageVolume work.
#[test]
fn mounted_volume_of_the_reference_driver_is_taken_over() {
    in_mount_namespace(|| async {
        for fs_type in ["ext3", "ext4", "xfs"] {
            let node = Node::new(SIZE);
            let reference = Reference { node: &node, fs_type };
            reference.format();
            reference.stage();
            reference.publish("first", "");
            reference.publish("reader", ",ro,nosuid");
            let written = content::write_file(&node.path("first/data"), 23, MIB).unwrap();
            let open = std::fs::File::open(node.path("first/data")).unwrap();
            let before = mounts(&node).await;
            node.stage(stage_request(&node, fs_type)).await.unwrap();
            node.publish(publish_request(&node, fs_type, "first")).await.unwrap();
            let mut reader = publish_request(&node, fs_type, "reader");
            reader.volume_capability = Some(mount(fs_type, &["nosuid"]));
            reader.readonly = true;
            node.publish(reader).await.unwrap();
            assert_eq!(mounts(&node).await, before, "{fs_type}: repeated calls change nothing");
            node.publish(publish_request(&node, fs_type, "second")).await.unwrap();
            assert_eq!(content::hash_file(&node.path("second/data")).unwrap(), written);
            let usage = node.stats(node.text("first")).await.unwrap();
            assert_eq!(usage.iter().map(csi::VolumeUsage::unit).collect::<Vec<_>>(), [Unit::Bytes, Unit::Inodes]);
            assert!(node.health(node.text("first")).await.unwrap().is_empty());
            node.disk.grow(2 * SIZE).unwrap();
            let outcome = node.expand(node.text("first")).await;
            if fs_type == "xfs" || may_grow_mounted_ext() {
                assert_eq!(outcome.unwrap(), i64::try_from(2 * SIZE).unwrap(), "{fs_type}");
            } else {
                refused(outcome, Code::FailedPrecondition, &["CAP_SYS_RESOURCE"]);
            }
            drop(open);
            for target in ["first", "second", "reader"] {
                node.unpublish(node.text(target)).await.unwrap();
                assert!(!node.path(target).exists(), "{fs_type}: {target}");
            }
            node.unstage().await.unwrap();
            assert!(!node.path("staging").exists());
            // If this process may not grow a mounted ext4, NodeStageVolume grows the file system now.
            node.stage(stage_request(&node, fs_type)).await.unwrap();
            assert_eq!(content::hash_file(&node.path("staging/data")).unwrap(), written, "{fs_type}");
            assert!(node.stats(node.text("staging")).await.unwrap()[0].total > i64::try_from(SIZE).unwrap());
        }
    });
}

async fn mounts(node: &Node) -> Vec<ebs_mounter::MountEntry> {
    let mut all = Vec::new();
    for at in ["staging", "first", "reader"] {
        all.extend(node.mounts_at(at).await);
    }
    all
}

/// NodeUnpublishVolume also removes the file at the target.
#[test]
fn bound_raw_device_of_the_reference_driver_is_taken_over() {
    with_node(async |node| {
        std::fs::write(node.path("target"), "").unwrap();
        let (device, target) = (node.disk.path().to_str().unwrap(), node.text("target"));
        run("/usr/bin/mount", &["-o", "bind", device, &target]);
        run("/usr/bin/mount", &["-o", "bind,remount", device, &target]);
        let written = content::write_device(&node.path("target"), 29, MIB).unwrap();
        let request =
            csi::NodePublishVolumeRequest { publish_context: context(&CONTEXT), ..node.publish_request(block()) };
        node.publish(request.clone()).await.unwrap();
        assert_eq!(node.mounts_at("target").await.len(), 1);
        let size = i64::try_from(64 * MIB).unwrap();
        assert_eq!(node.stats(target.clone()).await.unwrap()[0].total, size);
        assert_eq!(node.expand(target.clone()).await.unwrap(), size);
        let second = csi::NodePublishVolumeRequest { target_path: node.text("second"), ..request };
        node.publish(second).await.unwrap();
        assert_eq!(content::hash_start(&node.path("second"), MIB).unwrap(), written);
        for target in ["target", "second"] {
            node.unpublish(node.text(target)).await.unwrap();
            assert!(!node.path(target).exists());
        }
        node.unstage().await.unwrap();
    });
}

/// The node-local handle does not name the volume, but the mount identifies it.
#[test]
fn node_local_volume_of_the_reference_driver_is_taken_over() {
    with_node_of(SIZE, async |node| {
        let (local, xfs) = (as_local(node), mount("xfs", &[]));
        let reference = Reference { node, fs_type: "xfs" };
        reference.format();
        reference.stage();
        reference.publish("first", "");
        let written = content::write_file(&node.path("first/data"), 37, MIB).unwrap();
        let publish = |target: &str| node_local::publish_request(node, target, xfs.clone());
        let before = mounts(node).await;
        node.stage(node_local::stage_request(node, xfs.clone())).await.unwrap();
        node.publish(publish("first")).await.unwrap();
        assert_eq!(mounts(node).await, before, "repeated calls change nothing");
        node.publish(publish("second")).await.unwrap();
        assert_eq!(content::hash_file(&node.path("second/data")).unwrap(), written);
        node.disk.grow(2 * SIZE).unwrap();
        local.expand(node.text("first")).await.unwrap();
        let usage = local.stats(node.text("second")).await.unwrap();
        assert!(usage[0].total > i64::try_from(SIZE).unwrap(), "{usage:?}");
        for target in ["first", "second"] {
            local.unpublish(node.text(target)).await.unwrap();
            assert!(!node.path(target).exists());
        }
        local.unstage().await.unwrap();
        assert!(!node.path("staging").exists());
    });
}

/// The volume's mount table entry has six plain fields and names the device as the source, as the reference driver
/// expects. blkid and fsck find a clean file system of the type. The volume, target and staging directories contain
/// only the pod's files. The reference driver only has to unmount and remove the paths.
#[test]
fn mounts_can_be_handed_back_to_the_reference_driver() {
    in_mount_namespace(|| async {
        for fs_type in ["ext3", "ext4", "xfs"] {
            let node = Node::new(SIZE);
            let reference = Reference { node: &node, fs_type };
            node.stage(stage_request(&node, fs_type)).await.unwrap();
            node.publish(publish_request(&node, fs_type, "first")).await.unwrap();
            let made_by_mkfs: &[&str] = if fs_type == "xfs" { &[] } else { &["lost+found"] };
            assert_eq!(names_in(&node, "first"), made_by_mkfs);
            let written = content::write_file(&node.path("first/data"), 31, MIB).unwrap();
            let table = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
            for at in ["staging", "first"] {
                let line = table.lines().find(|line| line.contains(&node.text(at))).unwrap();
                let fields: Vec<&str> = line.split(' ').collect();
                assert_eq!(fields.len(), 6, "{line}");
                assert_eq!((fields[0], fields[2], fields[4], fields[5]), (reference.device(), fs_type, "0", "0"));
            }
            reference.publish("second", "");
            assert_eq!(content::hash_file(&node.path("second/data")).unwrap(), written);
            for path in ["first", "second", "staging"] {
                reference.clean_up(path).await;
            }
            let found =
                run("/usr/sbin/blkid", &["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", reference.device()]);
            assert!(found.contains(&format!("TYPE={fs_type}\n")) && !found.contains("PTTYPE"), "{found}");
            run("/usr/sbin/fsck", &["-a", reference.device()]);
            reference.stage();
            assert_eq!(content::hash_file(&node.path("staging/data")).unwrap(), written, "{fs_type}");
            reference.clean_up("staging").await;
            let of_volumes = |name: &String| name.starts_with("format-") || name == "binding";
            assert!(!names_in(&node, "state").iter().any(of_volumes), "a record is left");
        }
    });
}

fn names_in(node: &Node, path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(node.path(path)).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Parent directories also have these permissions.
#[test]
fn directories_have_the_permissions_of_the_reference_driver() {
    with_node(async |node| {
        let mode = |path: &str| std::fs::metadata(node.path(path)).unwrap().permissions().mode() & 0o7777;
        let request =
            csi::NodePublishVolumeRequest { target_path: node.text("pod/dev/file"), ..node.publish_request(block()) };
        node.publish(request).await.unwrap();
        unmount(node.path("pod/dev/file")).await;
        assert_eq!((mode("pod"), mode("pod/dev"), mode("pod/dev/file")), (0o755, 0o755, 0o644));
        let mut request = stage_request(node, "ext4");
        request.staging_target_path = node.text("plugin/volume/globalmount");
        node.stage(request).await.unwrap();
        unmount(node.path("plugin/volume/globalmount")).await;
        assert_eq!((mode("plugin/volume"), mode("plugin/volume/globalmount")), (0o755, 0o755));
    });
}

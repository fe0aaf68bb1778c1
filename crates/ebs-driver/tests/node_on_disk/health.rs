//! Tests what NodeGetVolumeHealth and the health watch report about the node's volumes.

use ebs_ec2::VolumeId;

use crate::prelude::*;
use crate::release::sysfs_with;
use crate::repair::trigger_error;

fn unhealthy(node: &Node, status: &'static str, reason: &'static str) -> Vec<(VolumeId, &'static str, &'static str)> {
    vec![(node.volume.clone(), status, reason)]
}

/// A driver that starts after NodeStageVolume also detects the problem. It logs the start and the end of the problem
/// once each.
#[test]
fn health_watch_finds_a_vanished_volume_and_logs_it_once() {
    with_staged_node(async |node| {
        node.service.check_volumes().await;
        assert_eq!(node.service.unhealthy_volumes(), []);
        let sys = sysfs_with(node, "sda", "8:0");
        let blind = node.again(|config| config.sys = sys);
        let log = Log::listen();
        for _ in 0..2 {
            blind.service.check_volumes().await;
            assert_eq!(blind.service.unhealthy_volumes(), unhealthy(node, "Inaccessible", "DeviceVanished"));
        }
        assert_eq!(log.lines_with(&["WARN", "unhealthy", node.volume.as_str()]).len(), 1);
        blind.unstage().await.unwrap();
        for _ in 0..2 {
            blind.service.check_volumes().await;
            assert_eq!(blind.service.unhealthy_volumes(), []);
        }
        assert_eq!(log.lines_with(&["INFO", "healthy again", node.volume.as_str()]).len(), 1);
    });
}

/// The mount table shows the file system as writable. The next NodeStageVolume call checks it.
#[test]
fn file_system_with_counted_errors_is_degraded_until_checked() {
    with_staged_node(async |node| {
        trigger_error(node).await;
        let table = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let line = table.lines().find(|line| line.contains(&format!("/dev/{} ", node.disk.name()))).unwrap();
        assert!(line.contains(" rw") && !line.contains("emergency_ro"), "{line}");
        node.service.check_volumes().await;
        assert_eq!(node.service.unhealthy_volumes(), unhealthy(node, "Degraded", "FileSystemErrors"));
        node.unstage().await.unwrap();
        node.staged("ext4").await;
        node.service.check_volumes().await;
        assert_eq!(node.service.unhealthy_volumes(), []);
    });
}

/// The watch checks a raw volume at its target. It also finds volumes that a previous driver left mounted in the
/// kubelet's directories.
#[test]
fn raw_volumes_and_volumes_of_a_previous_driver_are_watched() {
    in_mount_namespace(|| async {
        let raw = Node::new(MIB);
        raw.publish(raw.publish_request(block())).await.unwrap();
        let sys = sysfs_with(&raw, "sda", "8:0");
        let blind = raw.again(|config| config.sys = sys);
        blind.service.check_volumes().await;
        assert_eq!(blind.service.unhealthy_volumes().len(), 1, "{:?}", blind.service.unhealthy_volumes());

        let node = Node::new(64 * MIB);
        let kubelets = "plugins/kubernetes.io/csi/ebs.csi.aws.com/0a1b/globalmount";
        let mut request = node.stage_request("ext4", &["errors=remount-ro"]);
        request.staging_target_path = node.text(kubelets);
        node.stage(request).await.unwrap();
        std::fs::write(format!("/sys/fs/ext4/{}/trigger_fs_error", node.disk.name()), "test").unwrap();
        // A driver with an empty volume register, as after switching from the reference driver.
        let heir = node.again(|config| config.state_dir = node.path("another-state"));
        let seen = async {
            while heir.service.unhealthy_volumes() != unhealthy(&node, "Degraded", "ReadOnlyAfterErrors") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = heir.service.clone().watch_health() => panic!("it watches for ever"),
            seen = tokio::time::timeout(Duration::from_secs(30), seen) => seen.expect("found by the first check"),
        }
    });
}

/// The driver responds at once, even if the configured wait for late devices is long.
#[test]
fn health_of_an_absent_volume_is_reported_without_a_wait() {
    in_mount_namespace(|| async {
        let node = Node::with(MIB, |config| config.late_device = Duration::from_secs(120));
        let absent = "vol-0123456789abcdef0";
        let request = |volume: &str| csi::NodeGetVolumeHealthRequest {
            volume_id: volume.to_owned(),
            ..csi::NodeGetVolumeHealthRequest::default()
        };
        let asked = node.service.node_get_volume_health(Request::new(request(absent)));
        let reply = tokio::time::timeout(Duration::from_secs(20), asked).await.expect("an answer at once");
        refused(reply, Code::NotFound, &[absent]);
        let here = node.service.node_get_volume_health(Request::new(request(node.volume.as_str()))).await.unwrap();
        assert!(here.into_inner().volume_health.unwrap().health_statuses.is_empty());
    });
}

//! Tests a node that starts all its pods at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use csi_proto::csi;
use csi_proto::csi::node_server::Node as _;
use ebs_driver::node::NodeService;
use ebs_driver::operation::Operations;
use ebs_ec2::VolumeId;
use ebs_mounter::{MountTable, Mounter, MounterConfig};
use ebs_testkit::kubelet;
use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use ebs_testkit::mount_namespace::in_mount_namespace;
use tokio::task::JoinSet;
use tonic::{Request, Status};

use crate::node::{MIB, context, mount, options};

const VOLUMES: usize = 200;
const CLIENTS: usize = 16;
/// Timeout of the whole test, long enough for a machine that is busy with other suites.
const BOUND: Duration = Duration::from_secs(540);

/// The mounts of a test. They must be unmounted before their directory is removed.
struct Mounts(Vec<PathBuf>);

impl Drop for Mounts {
    fn drop(&mut self) {
        for at in &self.0 {
            // The unmount fails if the test ended before it mounted this path.
            let _ = rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

fn stage_request(volume: &VolumeId, staging: &Path) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest {
        volume_id: volume.to_string(),
        publish_context: context(&[("devicePath", "/dev/xvdaa"), ("ebs.csi.aws.com/source", "none")]),
        staging_target_path: staging.to_str().expect("a path of ours").to_owned(),
        volume_capability: Some(mount("ext4", &[])),
        ..csi::NodeStageVolumeRequest::default()
    }
}

/// 16 clients stage all volumes at once, and then unstage all of them at once. No call fails.
#[test]
fn two_hundred_concurrent_stages_all_succeed() {
    in_mount_namespace(|| async {
        let place = tempfile::tempdir().unwrap();
        let disks: Vec<(VolumeId, LoopDevice)> = (0..VOLUMES)
            .map(|_| {
                let volume = unused_volume_id();
                let disk = LoopDevice::new_in(place.path(), &volume, 64 * MIB).expect("a loop device");
                (volume, disk)
            })
            .collect();
        let root = place.path().canonicalize().unwrap();
        let config = MounterConfig {
            simulated_devices: Some(root.clone()),
            late_device: Duration::ZERO,
            ..MounterConfig::new(root.join("state"))
        };
        let service = NodeService::new(options(), Mounter::new(config).unwrap(), Operations::new());
        let volumes: Vec<(VolumeId, PathBuf)> =
            disks.iter().map(|(volume, _)| (volume.clone(), root.join(format!("staging-{volume}")))).collect();
        let _mounts = Mounts(volumes.iter().map(|(_, staging)| staging.clone()).collect());
        let all = async {
            let stage = |service: NodeService, volume: VolumeId, staging: PathBuf| async move {
                kubelet::stage(&service, stage_request(&volume, &staging)).await.map(drop)
            };
            assert_eq!(by_clients(&service, &volumes, stage).await, Vec::<String>::new(), "refused");
            let table = MountTable::read().await.unwrap();
            for (volume, staging) in &volumes {
                assert_eq!(table.topmost(staging).map(|entry| entry.fs_type.as_str()), Some("ext4"), "{volume}");
            }
            let unstage = |service: NodeService, volume: VolumeId, staging: PathBuf| async move {
                let staging_target_path = staging.to_str().expect("a path of ours").to_owned();
                let request = csi::NodeUnstageVolumeRequest { volume_id: volume.to_string(), staging_target_path };
                service.node_unstage_volume(Request::new(request)).await.map(drop)
            };
            assert_eq!(by_clients(&service, &volumes, unstage).await, Vec::<String>::new(), "refused");
        };
        tokio::time::timeout(BOUND, all).await.expect("all came back");
        let table = MountTable::read().await.unwrap();
        assert!(volumes.iter().all(|(_, staging)| table.topmost(staging).is_none() && !staging.exists()));
    });
}

/// Divides the volumes among the clients. Each client sends all its requests at once. Returns the errors.
async fn by_clients<F>(
    service: &NodeService,
    volumes: &[(VolumeId, PathBuf)],
    call: impl Fn(NodeService, VolumeId, PathBuf) -> F + Clone + Send + 'static,
) -> Vec<String>
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let mut clients = JoinSet::new();
    for share in volumes.chunks(VOLUMES.div_ceil(CLIENTS)) {
        let (service, share, call) = (service.clone(), share.to_vec(), call.clone());
        clients.spawn(async move {
            let mut calls = JoinSet::new();
            for (volume, staging) in share {
                calls.spawn(call(service.clone(), volume, staging));
            }
            calls.join_all().await
        });
    }
    let ended = clients.join_all().await.into_iter().flatten();
    ended.filter_map(Result::err).map(|status| status.message().to_owned()).collect()
}

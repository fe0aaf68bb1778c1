//! Tests of the node service with a fake Windows machine.

mod crashes;
mod expands;
#[cfg(unix)]
mod over_proxy;
mod publishes;
mod requests;
mod stages;
mod unstages;

use std::collections::HashMap;

use csi_proto::csi::node_server::Node as _;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::csi::{self, VolumeCapability};
use ebs_ec2::NodeId;
use ebs_metadata::{BlockDevices, NodeMetadata};
use tokio::task::JoinSet;
use tonic::{Request, Status};
use winstorage::fake::FakeHost;
use winstorage::host::EntryKind;
use winstorage::types::WinPath;
use winstorage::{Policy, Storage};

use super::*;

const KUBELET: &str = r"C:\var\lib\kubelet";
const VOLUME: &str = "vol-0123456789abcdef0";
const SERIAL: &str = "vol0123456789abcdef0_00000001.";
const STAGING: &str = r"C:\var\lib\kubelet\plugins\kubernetes.io\csi\ebs.csi.aws.com\1f2e\globalmount";
const TARGET: &str = r"C:\var\lib\kubelet\pods\6a\volumes\kubernetes.io~csi\pv-1\mount";
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// A machine with Windows on disk 0, and a node service that uses it.
#[derive(Clone)]
struct World {
    host: FakeHost,
    node: CsiNode<WindowsNode>,
    /// The tasks of the csi-proxy between `node` and `host`, if there is one.
    _proxy: Arc<JoinSet<()>>,
}

impl World {
    /// Creates a world whose volume is disk 1: blank, offline, 10 GiB.
    fn new() -> Self {
        let world = Self::without_disk();
        world.host.add_disk(1, SERIAL, 10 * GIB, false);
        world
    }

    fn without_disk() -> Self {
        Self::on(with_directories(FakeHost::new()), "m5.large")
    }

    fn on(host: FakeHost, instance_type: &str) -> Self {
        Self { node: service(&host, instance_type), host, _proxy: Arc::default() }
    }

    /// Replaces the driver's process. The machine stays the same.
    fn replace_driver(&mut self) {
        self.host.restart();
        self.node = service(&self.host, "m5.large");
    }

    async fn stage(&self) -> Result<(), Status> {
        self.stage_as(stage_request()).await
    }

    async fn stage_as(&self, request: csi::NodeStageVolumeRequest) -> Result<(), Status> {
        self.node.node_stage_volume(Request::new(request)).await.map(drop)
    }

    async fn publish(&self) -> Result<(), Status> {
        self.publish_as(publish_request()).await
    }

    async fn publish_as(&self, request: csi::NodePublishVolumeRequest) -> Result<(), Status> {
        self.node.node_publish_volume(Request::new(request)).await.map(drop)
    }

    async fn unpublish(&self) -> Result<(), Status> {
        let request = csi::NodeUnpublishVolumeRequest { volume_id: VOLUME.to_owned(), target_path: TARGET.to_owned() };
        self.node.node_unpublish_volume(Request::new(request)).await.map(drop)
    }

    async fn unstage(&self) -> Result<(), Status> {
        let (volume_id, staging_target_path) = (VOLUME.to_owned(), STAGING.to_owned());
        let request = csi::NodeUnstageVolumeRequest { volume_id, staging_target_path };
        self.node.node_unstage_volume(Request::new(request)).await.map(drop)
    }

    async fn expand(&self, required: u64) -> Result<i64, Status> {
        let required_bytes = i64::try_from(required).unwrap();
        let request = csi::NodeExpandVolumeRequest {
            volume_id: VOLUME.to_owned(),
            volume_path: TARGET.to_owned(),
            capacity_range: Some(csi::CapacityRange { required_bytes, limit_bytes: 0 }),
            ..Default::default()
        };
        Ok(self.node.node_expand_volume(Request::new(request)).await?.into_inner().capacity_bytes)
    }

    async fn stats(&self, path: &str) -> Result<csi::VolumeUsage, Status> {
        let (volume_id, volume_path) = (VOLUME.to_owned(), path.to_owned());
        let request = csi::NodeGetVolumeStatsRequest { volume_id, volume_path, ..Default::default() };
        Ok(self.node.node_get_volume_stats(Request::new(request)).await?.into_inner().usage.remove(0))
    }

    fn is_staged(&self) -> bool {
        let volumes = self.host.volumes_of(1);
        volumes.len() == 1 && self.host.kind_at(STAGING) == Some(EntryKind::MountPoint(volumes[0].clone()))
    }

    fn is_published(&self) -> bool {
        let link = EntryKind::SymbolicLink { target: STAGING.to_owned(), is_directory: true };
        self.host.kind_at(TARGET) == Some(link)
    }

    fn formats(&self) -> usize {
        self.host.volumes_of(1).iter().map(|volume| self.host.formats(volume)).sum()
    }
}

fn with_directories(host: FakeHost) -> FakeHost {
    host.add_directory(TARGET.strip_suffix(r"\mount").unwrap());
    host.add_directory(&format!(r"{KUBELET}\plugins"));
    host
}

fn policy() -> Policy {
    Policy::new(vec![WinPath::normalise(KUBELET).unwrap()])
}

fn service(host: &FakeHost, instance_type: &str) -> CsiNode<WindowsNode> {
    service_over(Arc::new(Storage::new(Arc::new(host.clone()), policy())), instance_type)
}

fn service_over(storage: Arc<dyn NodeStorage>, instance_type: &str) -> CsiNode<WindowsNode> {
    let metadata = NodeMetadata {
        node: NodeId::parse("i-0123456789abcdef0").unwrap(),
        instance_type: instance_type.to_owned(),
        region: "us-west-2".to_owned(),
        zone: ebs_ec2::ZoneName::parse("us-west-2a").unwrap(),
        outpost: None,
        network_interfaces: 1,
        block_devices: BlockDevices::Others(0),
    };
    let options = NodeOptions {
        driver: DriverName::default(),
        machine: Arc::new(Machine::told(metadata)),
        limits: LimitFlags::default(),
    };
    WindowsNode::new(options, storage, Operations::new())
}

fn capability(fs_type: &str) -> Option<VolumeCapability> {
    Some(VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        access_type: Some(AccessType::Mount(MountVolume { fs_type: fs_type.to_owned(), ..Default::default() })),
    })
}

fn stage_request() -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest {
        volume_id: VOLUME.to_owned(),
        staging_target_path: STAGING.to_owned(),
        volume_capability: capability("ntfs"),
        publish_context: HashMap::from([("devicePath".to_owned(), "/dev/xvdaa".to_owned())]),
        ..Default::default()
    }
}

fn publish_request() -> csi::NodePublishVolumeRequest {
    csi::NodePublishVolumeRequest {
        volume_id: VOLUME.to_owned(),
        staging_target_path: STAGING.to_owned(),
        target_path: TARGET.to_owned(),
        volume_capability: capability("ntfs"),
        publish_context: HashMap::from([("devicePath".to_owned(), "/dev/xvdaa".to_owned())]),
        ..Default::default()
    }
}

fn code(refused: &Status) -> String {
    format!("{:?}", refused.code())
}

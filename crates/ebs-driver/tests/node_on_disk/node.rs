//! A node service with its own disk.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi;
use csi_proto::csi::node_server::Node as _;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::volume_health::VolumeHealthEntry;
use ebs_driver::node::{NodeOptions, NodeService};
use ebs_driver::operation::Operations;
use ebs_ec2::{DriverName, NodeId, VolumeId, ZoneName};
use ebs_metadata::{BlockDevices, LimitFlags, Machine, NodeMetadata};
use ebs_mounter::{MountEntry, MountTable, Mounter, MounterConfig};
use ebs_testkit::content;
use ebs_testkit::kubelet;
use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use ebs_testkit::mount_namespace::in_mount_namespace;
use tonic::{Code, Request, Status};

pub(crate) const MIB: u64 = 1 << 20;

/// Runs a test in its own mount namespace, with a node that has a blank disk of 64 MiB.
pub(crate) fn with_node(test: impl AsyncFnOnce(&Node) + Send + 'static) {
    with_node_of(64 * MIB, test);
}

/// Works like [`with_node`], with a larger disk.
pub(crate) fn with_node_of(bytes: u64, test: impl AsyncFnOnce(&Node) + Send + 'static) {
    in_mount_namespace(move || async move { test(&Node::new(bytes)).await });
}

/// Works like [`with_node`], with the volume staged as ext4.
pub(crate) fn with_staged_node(test: impl AsyncFnOnce(&Node) + Send + 'static) {
    with_node(async move |node| {
        node.staged("ext4").await;
        test(node).await;
    });
}

/// Calls a node service for one volume.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) service: NodeService,
    /// The CSI handle of the volume.
    pub(crate) handle: String,
    /// Whether the mutating calls of this struct also wait until the volume register is on disk, so that a test's
    /// second service can read it. The RPCs themselves do not wait.
    pub(crate) awaits_register: bool,
    pub(crate) place_path: PathBuf,
}

impl Calls {
    /// Returns the absolute path for this name in the test's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place_path.join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    async fn written<T>(&self, outcome: Result<T, Status>) -> Result<(), Status> {
        let is_written = !self.awaits_register || self.service.register_written(Duration::from_secs(60)).await;
        assert!(is_written, "the register is not written");
        outcome.map(drop)
    }

    /// Calls NodeStageVolume. Checks that the status code does not cause the kubelet to forget a mount.
    pub(crate) async fn stage(&self, request: csi::NodeStageVolumeRequest) -> Result<(), Status> {
        self.written(kubelet::stage(&self.service, request).await).await
    }

    pub(crate) async fn unstage(&self) -> Result<(), Status> {
        self.unstage_at(self.text("staging")).await
    }

    pub(crate) async fn unstage_at(&self, staging_target_path: String) -> Result<(), Status> {
        let request = csi::NodeUnstageVolumeRequest { volume_id: self.handle.clone(), staging_target_path };
        self.written(self.service.node_unstage_volume(Request::new(request)).await).await
    }

    /// Calls NodePublishVolume. Checks that the status code does not cause the kubelet to forget a mount of the volume.
    pub(crate) async fn publish(&self, request: csi::NodePublishVolumeRequest) -> Result<(), Status> {
        self.written(kubelet::publish(&self.service, request).await).await
    }

    /// Calls NodePublishVolume at a target where another volume or file system is mounted.
    pub(crate) async fn publish_over_foreign(&self, request: csi::NodePublishVolumeRequest) -> Result<(), Status> {
        self.written(self.service.node_publish_volume(Request::new(request)).await).await
    }

    pub(crate) async fn unpublish(&self, target_path: String) -> Result<(), Status> {
        let request = csi::NodeUnpublishVolumeRequest { volume_id: self.handle.clone(), target_path };
        self.written(self.service.node_unpublish_volume(Request::new(request)).await).await
    }

    pub(crate) async fn stats(&self, volume_path: String) -> Result<Vec<csi::VolumeUsage>, Status> {
        let volume_id = self.handle.clone();
        let request = csi::NodeGetVolumeStatsRequest { volume_id, volume_path, ..Default::default() };
        self.service.node_get_volume_stats(Request::new(request)).await.map(|reply| reply.into_inner().usage)
    }

    pub(crate) async fn expand(&self, volume_path: String) -> Result<i64, Status> {
        self.expand_to(volume_path, 0).await
    }

    /// Calls NodeExpandVolume with a minimum size in bytes.
    pub(crate) async fn expand_to(&self, volume_path: String, required_bytes: i64) -> Result<i64, Status> {
        let request = csi::NodeExpandVolumeRequest {
            volume_id: self.handle.clone(),
            volume_path,
            capacity_range: Some(csi::CapacityRange { required_bytes, limit_bytes: 0 }),
            ..csi::NodeExpandVolumeRequest::default()
        };
        self.service.node_expand_volume(Request::new(request)).await.map(|reply| reply.into_inner().capacity_bytes)
    }

    pub(crate) async fn health(&self, volume_publish_path: String) -> Result<Vec<VolumeHealthEntry>, Status> {
        let volume_id = self.handle.clone();
        let request = csi::NodeGetVolumeHealthRequest { volume_id, volume_publish_path, ..Default::default() };
        let reply = self.service.node_get_volume_health(Request::new(request)).await?.into_inner();
        Ok(reply.volume_health.map(|health| health.health_statuses).unwrap_or_default())
    }
}

/// A node, its only disk and a directory for its paths.
pub(crate) struct Node {
    pub(crate) calls: Calls,
    pub(crate) volume: VolumeId,
    pub(crate) disk: LoopDevice,
    pub(crate) place: tempfile::TempDir,
}

impl Deref for Node {
    type Target = Calls;

    fn deref(&self) -> &Calls {
        &self.calls
    }
}

impl Node {
    pub(crate) fn new(bytes: u64) -> Self {
        Self::with(bytes, |_| {})
    }

    /// Works like [`Node::new`], with another configuration of the mounter.
    pub(crate) fn with(bytes: u64, change: impl FnOnce(&mut MounterConfig)) -> Self {
        let volume = unused_volume_id();
        let disk = LoopDevice::new(&volume, bytes).expect("a loop device");
        Self::over(volume, disk, change)
    }

    /// Works like [`Node::new`], with the disk's backing file in this directory.
    pub(crate) fn on(directory: &std::path::Path, bytes: u64) -> Self {
        let volume = unused_volume_id();
        let disk = LoopDevice::new_in(directory, &volume, bytes).expect("a loop device");
        Self::over(volume, disk, |_| {})
    }

    /// Works like [`Node::new`], with a disk that has one partition.
    pub(crate) fn partitioned(bytes: u64) -> Self {
        let volume = unused_volume_id();
        let disk = LoopDevice::with_partition(&volume, bytes).expect("a loop device with a partition");
        Self::over(volume, disk, |_| {})
    }

    fn over(volume: VolumeId, disk: LoopDevice, change: impl FnOnce(&mut MounterConfig)) -> Self {
        let place = tempfile::tempdir().unwrap();
        let calls = Calls {
            service: service(&disk, &place, (options(), Operations::new()), change),
            handle: volume.to_string(),
            awaits_register: true,
            place_path: place.path().canonicalize().unwrap(),
        };
        Self { calls, volume, disk, place }
    }

    /// Returns a request to stage the volume at `staging`. The context has a fixed attach time.
    pub(crate) fn stage_request(&self, fs_type: &str, flags: &[&str]) -> csi::NodeStageVolumeRequest {
        csi::NodeStageVolumeRequest {
            volume_id: self.volume.to_string(),
            publish_context: context(&[
                ("devicePath", "/dev/xvdaa"),
                ("ebs.csi.aws.com/source", "none"),
                ("ebs.csi.aws.com/attach-time", "2026-11-21T17:31:00Z"),
            ]),
            staging_target_path: self.text("staging"),
            volume_capability: Some(mount(fs_type, flags)),
            ..csi::NodeStageVolumeRequest::default()
        }
    }

    pub(crate) async fn staged(&self, fs_type: &str) {
        self.stage(self.stage_request(fs_type, &[])).await.expect("a staged volume");
    }

    pub(crate) fn publish_request(&self, capability: csi::VolumeCapability) -> csi::NodePublishVolumeRequest {
        csi::NodePublishVolumeRequest {
            volume_id: self.volume.to_string(),
            publish_context: context(&[("devicePath", "/dev/xvdaa")]),
            staging_target_path: self.text("staging"),
            target_path: self.text("target"),
            volume_capability: Some(capability),
            ..csi::NodePublishVolumeRequest::default()
        }
    }

    /// Returns a second node service for the same disk and directory.
    pub(crate) fn again(&self, change: impl FnOnce(&mut MounterConfig)) -> Calls {
        self.again_as((options(), Operations::new()), change)
    }

    /// Works like [`Node::again`], with other options and the test's own operations.
    pub(crate) fn again_as(
        &self,
        of_service: (NodeOptions, Operations),
        change: impl FnOnce(&mut MounterConfig),
    ) -> Calls {
        let service = service(&self.disk, &self.place, of_service, change);
        Calls { service, awaits_register: false, ..self.calls.clone() }
    }

    /// Returns the mounts at a path in this test's directory, oldest first.
    pub(crate) async fn mounts_at(&self, name: &str) -> Vec<MountEntry> {
        let (table, at) = (MountTable::read().await.unwrap(), self.path(name));
        table.entries().iter().filter(|entry| entry.target == at).cloned().collect()
    }

    /// Returns true when every byte of the disk is zero.
    pub(crate) fn is_untouched(&self) -> bool {
        let (bytes, chunk) = (content::size_of(self.disk.path()).unwrap(), usize::try_from(MIB).unwrap());
        let places = (0..bytes.div_ceil(MIB)).map(|n| n * MIB);
        let lengths = places.map(|at| (at, chunk.min(usize::try_from(bytes - at).unwrap())));
        lengths.into_iter().all(|(at, length)| self.disk.read_at(length, at).unwrap().iter().all(|byte| *byte == 0))
    }

    /// Returns the UUID of the disk's ext file system.
    pub(crate) fn ext_uuid(&self) -> Vec<u8> {
        self.disk.read_at(16, 1024 + 0x68).unwrap()
    }
}

fn service(
    disk: &LoopDevice,
    place: &tempfile::TempDir,
    (options, operations): (NodeOptions, Operations),
    change: impl FnOnce(&mut MounterConfig),
) -> NodeService {
    let mut config = MounterConfig {
        simulated_devices: Some(disk.directory().to_owned()),
        late_device: Duration::ZERO,
        late_size: Duration::ZERO,
        ..MounterConfig::new(place.path().join("state"))
    };
    change(&mut config);
    NodeService::new(options, Mounter::new(config).expect("a mounter"), operations)
}

/// Returns the metadata of an `m5.large` instance without attached volumes.
pub(crate) fn metadata() -> NodeMetadata {
    NodeMetadata {
        node: NodeId::parse("i-0abc").unwrap(),
        instance_type: "m5.large".to_owned(),
        region: "us-west-2".to_owned(),
        zone: ZoneName::parse("us-west-2a").unwrap(),
        outpost: None,
        network_interfaces: 1,
        block_devices: BlockDevices::AtBoot(0),
    }
}

pub(crate) fn options() -> NodeOptions {
    options_of(metadata())
}

pub(crate) fn options_of(metadata: NodeMetadata) -> NodeOptions {
    NodeOptions {
        driver: DriverName::default(),
        machine: Arc::new(Machine::told(metadata)),
        limits: LimitFlags::default(),
        legacy_xfs: false,
    }
}

pub(crate) fn context(entries: &[(&str, &str)]) -> HashMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn mount(fs_type: &str, flags: &[&str]) -> csi::VolumeCapability {
    let mount = MountVolume {
        fs_type: fs_type.to_owned(),
        mount_flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        ..MountVolume::default()
    };
    capability(Some(AccessType::Mount(mount)))
}

pub(crate) fn block() -> csi::VolumeCapability {
    capability(Some(AccessType::Block(BlockVolume {})))
}

fn capability(access_type: Option<AccessType>) -> csi::VolumeCapability {
    csi::VolumeCapability { access_type, access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }) }
}

/// Checks that a call failed with this code and that the message contains these words. Returns the message.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(outcome: Result<T, Status>, code: Code, words: &[&str]) -> String {
    let status = outcome.expect_err("a refusal");
    assert_eq!(status.code(), code, "{}", status.message());
    for word in words {
        assert!(status.message().contains(word), "{word:?} is not in: {}", status.message());
    }
    status.message().to_owned()
}

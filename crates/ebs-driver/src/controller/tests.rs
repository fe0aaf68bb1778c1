//! Tests of the service with the simulated EC2 in memory, on paused time.

/// Calls an RPC as a sidecar does, over the sidecar's only connection, and returns the response.
macro_rules! ask {
    ($world:expr, $rpc:ident, $request:expr) => {
        $world.service.$rpc($world.over($request)).await.map(Response::into_inner).map_err(Refused::from)
    };
}

mod attachments;
mod documents;
mod examples;
mod impossible;
mod interleavings;
mod locks;
mod modifications;
mod node_local;
mod outposts;
mod random_requests;
mod rights;
mod shared_classes;
mod short_deadlines;
mod snapshots;
mod volumes;

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::volume_content_source::{SnapshotSource, Type as SourceType, VolumeSource};
use csi_proto::csi::{
    self, CapacityRange, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerModifyVolumeRequest,
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, CreateSnapshotRequest, CreateVolumeRequest,
    DeleteSnapshotRequest, DeleteVolumeRequest, GetSnapshotRequest, ListSnapshotsRequest, ListVolumesRequest,
    ValidateVolumeCapabilitiesRequest, VolumeCapability,
};
use ebs_cloud::CloudConfig;
use ebs_ec2::{Action, ConnectionId, InstanceId};
use ebs_sim::api::SimVolume;
use ebs_sim::engine::{EngineConfig, TimingOverride};
use ebs_sim::port::SimEc2;

use super::*;

const GIB: i64 = 1 << 30;
/// A volume that does not exist.
const NO_VOLUME: &str = "vol-0123456789abcdef0";
const NO_SNAPSHOT: &str = "snap-0123456789abcdef0";
const HERE: &str = "us-west-2a";

/// A driver and its own simulated EC2.
#[derive(Clone)]
struct World {
    ec2: SimEc2,
    service: ControllerService<SimEc2>,
    operations: Operations,
    connection: ConnectionId,
    here: InstanceId,
    elsewhere: InstanceId,
}

impl World {
    async fn start() -> Self {
        Self::with(EngineConfig::default()).await
    }

    async fn with(config: EngineConfig) -> Self {
        let ec2 = SimEc2::start(config).await.expect("an engine in memory starts");
        ec2.engine().least_rights().demand(ebs_sim::iam::Shipped::ManagedV2);
        let [here, elsewhere] = ec2.instance_ids().await;
        let (service, operations) = driver_over(&ec2, None);
        Self { ec2, service, operations, connection: ConnectionId::unique(), here, elsewhere }
    }

    /// Replaces the driver process with a new one that uses the same EC2.
    fn replace_driver(&mut self) {
        (self.service, self.operations) = driver_over(&self.ec2, None);
    }

    /// Replaces the driver process with a new one whose wall clock agrees with EC2's.
    fn restart(&mut self) {
        (self.service, self.operations) = driver_over(&self.ec2, Some(self.ec2.engine().now()));
    }

    /// Returns all volumes except the root volumes of the instances.
    async fn volumes(&self) -> Vec<SimVolume> {
        let mut volumes = self.ec2.engine().snapshot_of_state().await.volumes;
        volumes.retain(|v| !v.attachments.iter().any(|a| a.delete_on_termination));
        volumes
    }

    /// Returns the mutating calls so far, without dry runs.
    fn mutations(&self) -> Vec<Action> {
        self.ec2.calls().iter().filter(|c| c.action.mutates() && !c.dry_run).map(|c| c.action).collect()
    }

    async fn snapshots(&self) -> usize {
        self.ec2.engine().snapshot_of_state().await.snapshots.len()
    }

    async fn timing(&self, timing: TimingOverride) {
        self.ec2.engine().set_timing(timing).await;
    }

    async fn create(&self, request: CreateVolumeRequest) -> Result<csi::Volume, Refused> {
        Ok(ask!(self, create_volume, request)?.volume.expect("a volume"))
    }

    /// Creates a volume of 4 GiB in the zone of the first instance and returns its ID.
    async fn volume(&self, name: &str) -> String {
        self.create(in_zone(named(name), HERE)).await.expect("created").volume_id
    }

    async fn delete(&self, volume_id: &str) -> Result<(), Refused> {
        let request = DeleteVolumeRequest { volume_id: volume_id.to_owned(), ..Default::default() };
        ask!(self, delete_volume, request).map(drop)
    }

    /// Wraps a request as a sidecar sends it, with the sidecar's only connection.
    fn over<R>(&self, request: R) -> Request<R> {
        let mut request = Request::new(request);
        request.extensions_mut().insert(self.connection);
        request
    }

    /// Returns a request to publish the volume with ext4 on the first instance.
    fn to_publish(&self, volume_id: &str) -> ControllerPublishVolumeRequest {
        ControllerPublishVolumeRequest {
            volume_id: volume_id.to_owned(),
            node_id: self.here.to_string(),
            volume_capability: Some(mount("ext4")),
            ..Default::default()
        }
    }

    async fn publish(&self, volume_id: &str, node_id: &str) -> Result<HashMap<String, String>, Refused> {
        let node_id = node_id.to_owned();
        self.publish_as(ControllerPublishVolumeRequest { node_id, ..self.to_publish(volume_id) }).await
    }

    async fn publish_as(&self, request: ControllerPublishVolumeRequest) -> Result<HashMap<String, String>, Refused> {
        ask!(self, controller_publish_volume, request).map(|reply| reply.publish_context)
    }

    async fn unpublish(&self, volume_id: &str, node_id: &str) -> Result<(), Refused> {
        let (volume_id, node_id) = (volume_id.to_owned(), node_id.to_owned());
        let request = ControllerUnpublishVolumeRequest { volume_id, node_id, ..Default::default() };
        ask!(self, controller_unpublish_volume, request).map(drop)
    }

    async fn is_attached(&self) -> bool {
        self.volumes().await.iter().any(|volume| !volume.attachments.is_empty())
    }

    async fn take(&self, name: &str, volume: &str, class: &[(&str, &str)]) -> Result<csi::Snapshot, Refused> {
        let (name, source_volume_id, parameters) = (name.to_owned(), volume.to_owned(), map(class));
        let request = CreateSnapshotRequest { name, source_volume_id, parameters, ..Default::default() };
        Ok(ask!(self, create_snapshot, request)?.snapshot.expect("a snapshot"))
    }

    async fn delete_snapshot(&self, id: &str) -> Result<(), Refused> {
        let request = DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() };
        ask!(self, delete_snapshot, request).map(drop)
    }

    async fn modify(&self, volume: &str, class: &[(&str, &str)]) -> Result<(), Refused> {
        let (volume_id, mutable_parameters) = (volume.to_owned(), map(class));
        let request = ControllerModifyVolumeRequest { volume_id, mutable_parameters, ..Default::default() };
        ask!(self, controller_modify_volume, request).map(drop)
    }

    async fn expand(
        &self,
        volume: &str,
        capacity_range: Option<CapacityRange>,
        volume_capability: Option<VolumeCapability>,
    ) -> Result<ControllerExpandVolumeResponse, Refused> {
        let volume_id = volume.to_owned();
        let request =
            ControllerExpandVolumeRequest { volume_id, capacity_range, volume_capability, ..Default::default() };
        ask!(self, controller_expand_volume, request)
    }

    /// Grows a volume, and returns its size in GiB.
    async fn grow(&self, volume: &str, gib: i64) -> Result<i64, Refused> {
        Ok(self.expand(volume, bytes(gib * GIB, 0), None).await?.capacity_bytes / GIB)
    }
}

/// Creates a new driver process whose clock shows this time of day, or the machine's time for `None`.
pub(crate) fn driver_over(ec2: &SimEc2, time_of_day: Option<SystemTime>) -> (ControllerService<SimEc2>, Operations) {
    let config = CloudConfig { time_of_day, ..CloudConfig::new(DriverName::default()) };
    let cloud = Cloud::new(Arc::new(ec2.clone()), config);
    let operations = Operations::new();
    (ControllerService::new(Arc::new(cloud), ControllerOptions::default(), operations.clone()), operations)
}

/// An error as a client receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refused {
    code: String,
    message: String,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self { code: format!("{:?}", status.code()), message: status.message().to_owned() }
    }
}

/// Checks that the result is an error with this code and this text in its message.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Refused>, code: &str, says: &str) {
    let refused = result.expect_err("should be refused");
    assert!(refused.code == code && refused.message.contains(says), "wanted {code} about {says:?}: {refused:?}");
}

fn mount(fs_type: &str) -> VolumeCapability {
    let mount = MountVolume { fs_type: fs_type.to_owned(), ..Default::default() };
    capability(AccessType::Mount(mount), Mode::SingleNodeWriter)
}

fn block(mode: Mode) -> VolumeCapability {
    capability(AccessType::Block(BlockVolume {}), mode)
}

fn capability(access: AccessType, mode: Mode) -> VolumeCapability {
    VolumeCapability { access_type: Some(access), access_mode: Some(AccessMode { mode: mode.into() }) }
}

fn map(entries: &[(&str, &str)]) -> HashMap<String, String> {
    entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// Returns a request for 4 GiB with ext4.
fn named(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: bytes(4 * GIB, 0),
        volume_capabilities: vec![mount("ext4")],
        ..Default::default()
    }
}

fn with_parameters(request: CreateVolumeRequest, parameters: &[(&str, &str)]) -> CreateVolumeRequest {
    CreateVolumeRequest { parameters: map(parameters), ..request }
}

fn bytes(required_bytes: i64, limit_bytes: i64) -> Option<CapacityRange> {
    Some(CapacityRange { required_bytes, limit_bytes })
}

fn of_gib(request: CreateVolumeRequest, gib: i64) -> CreateVolumeRequest {
    CreateVolumeRequest { capacity_range: bytes(gib * GIB, 0), ..request }
}

fn with_capability(request: CreateVolumeRequest, capability: VolumeCapability) -> CreateVolumeRequest {
    CreateVolumeRequest { volume_capabilities: vec![capability], ..request }
}

fn from_snapshot(request: CreateVolumeRequest, id: &str) -> CreateVolumeRequest {
    from(request, SourceType::Snapshot(SnapshotSource { snapshot_id: id.to_owned() }))
}

fn from_volume(request: CreateVolumeRequest, id: &str) -> CreateVolumeRequest {
    from(request, SourceType::Volume(VolumeSource { volume_id: id.to_owned() }))
}

fn from(request: CreateVolumeRequest, source: SourceType) -> CreateVolumeRequest {
    CreateVolumeRequest { volume_content_source: Some(csi::VolumeContentSource { r#type: Some(source) }), ..request }
}

fn in_zone(request: CreateVolumeRequest, zone: &str) -> CreateVolumeRequest {
    in_place(request, &[("topology.kubernetes.io/zone", zone)])
}

fn in_place(request: CreateVolumeRequest, segments: &[(&str, &str)]) -> CreateVolumeRequest {
    let term = csi::Topology { segments: map(segments) };
    let requirement = csi::TopologyRequirement { requisite: vec![term.clone()], preferred: vec![term] };
    CreateVolumeRequest { accessibility_requirements: Some(requirement), ..request }
}

fn empty<R: Default>() -> Request<R> {
    Request::new(R::default())
}

/// Awaits a future with a timeout, on paused time.
async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), future).await.unwrap_or_else(|_| panic!("{what}: never"))
}

/// Drops a call as soon as `reached` is ready, as when the client disconnects during the call.
async fn leave_when<T>(call: impl Future<Output = T>, reached: impl Future<Output = ()>) {
    within("the call gets there", async {
        tokio::select! {
            _ = call => panic!("the call ended"),
            () = reached => (),
        }
    })
    .await;
}

/// The code is Unimplemented.
#[tokio::test(start_paused = true)]
async fn error_for_an_unsupported_rpc_names_the_rpc() {
    let world = World::start().await;
    let s = &world.service;
    let refusals = [
        ("GetCapacity", s.get_capacity(empty()).await.map(drop)),
        ("ControllerGetVolume", s.controller_get_volume(empty()).await.map(drop)),
        ("ControllerListVolumeHealth", s.controller_list_volume_health(empty()).await.map(drop)),
        ("ControllerGetVolumeHealth", s.controller_get_volume_health(empty()).await.map(drop)),
    ];
    for (rpc, result) in refusals {
        refused(result.map_err(Refused::from), "Unimplemented", rpc);
    }
}

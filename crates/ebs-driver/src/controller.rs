//! The Controller service: volumes, attachments and snapshots in EC2.
//!
//! Each RPC parses its request into a typed plan, runs mutations as an operation, and converts the result into the
//! response. `ebs-cloud` decides which EC2 calls are made, and in which order.

mod capabilities;
mod codes;
mod create_volume;
mod delete_volume;
mod expand;
mod handle;
mod list_volumes;
mod modification;
mod modify;
mod node_local;
mod publish;
mod refusal;
mod snapshots;
mod unpublish;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::controller_server::Controller;
use csi_proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerGetCapabilitiesRequest,
    ControllerGetCapabilitiesResponse, ControllerGetVolumeHealthRequest, ControllerGetVolumeHealthResponse,
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, ControllerListVolumeHealthRequest,
    ControllerListVolumeHealthResponse, ControllerModifyVolumeRequest, ControllerModifyVolumeResponse,
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse, CreateSnapshotRequest, CreateSnapshotResponse, CreateVolumeRequest,
    CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse, DeleteVolumeRequest, DeleteVolumeResponse,
    GetCapacityRequest, GetCapacityResponse, GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest,
    ListSnapshotsResponse, ListVolumesRequest, ListVolumesResponse, ValidateVolumeCapabilitiesRequest,
    ValidateVolumeCapabilitiesResponse,
};
use csi_proto::modify::modify_server::Modify;
use csi_proto::modify::{
    GetCsiDriverModificationCapabilityRequest, GetCsiDriverModificationCapabilityResponse,
    ModifyVolumePropertiesRequest, ModifyVolumePropertiesResponse,
};
use ebs_cloud::{Cloud, Ec2, Sidecar};
use ebs_types::DriverName;
use tonic::{Request, Response, Status};

use crate::operation::Operations;
use crate::request_log::receive;
use crate::rpc::Rpc;
use crate::status::{answer, unimplemented_rpc};
use crate::tags::TagPolicy;

pub use refusal::{AtRpc, ControllerError};

/// The settings of the controller service, which do not change after start.
#[derive(Debug, Clone)]
pub struct ControllerOptions {
    pub driver: DriverName,
    /// The tags that the driver sets.
    pub tags: TagPolicy,
    /// `--enable-node-local-volumes`: handles `local-ebs://…` can be published.
    pub node_local_volumes: bool,
    /// How long the driver gathers changes of one volume before it carries them out.
    pub modification_window: Duration,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            driver: DriverName::default(),
            tags: TagPolicy::default(),
            node_local_volumes: false,
            modification_window: Duration::from_secs(2),
        }
    }
}

/// The CSI controller service over one EC2. Clones share everything.
pub struct ControllerService<E> {
    cloud: Arc<Cloud<E>>,
    operations: Operations,
    options: Arc<ControllerOptions>,
}

impl<E> Clone for ControllerService<E> {
    fn clone(&self) -> Self {
        Self { cloud: Arc::clone(&self.cloud), operations: self.operations.clone(), options: Arc::clone(&self.options) }
    }
}

impl<E: Ec2> ControllerService<E> {
    /// Creates a service over `cloud`. The caller drains `operations` at shutdown. The node service has its own
    /// operations.
    pub fn new(cloud: Arc<Cloud<E>>, options: ControllerOptions, operations: Operations) -> Self {
        Self { cloud, operations, options: Arc::new(options) }
    }

    /// Records the connection of a request, before the operation that the request starts or joins.
    fn note_request<R>(&self, sidecar: Sidecar, request: &Request<R>) {
        self.cloud.record_request(sidecar, request.extensions().get().copied());
    }
}

#[tonic::async_trait]
impl<E: Ec2> Controller for ControllerService<E> {
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        self.note_request(Sidecar::Provisioner, &request);
        answer(create_volume::run(self, receive(request)).await)
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        self.note_request(Sidecar::Provisioner, &request);
        answer(delete_volume::run(self, receive(request)).await)
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Result<Response<ControllerPublishVolumeResponse>, Status> {
        self.note_request(Sidecar::Attacher, &request);
        answer(publish::run(self, receive(request)).await)
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<ControllerUnpublishVolumeResponse>, Status> {
        self.note_request(Sidecar::Attacher, &request);
        answer(unpublish::run(self, receive(request)).await)
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        answer(validate::run(self, receive(request)).await)
    }

    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        answer(list_volumes::run(self, receive(request)).await)
    }

    async fn controller_get_capabilities(
        &self,
        _request: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(capabilities::response()))
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        self.note_request(Sidecar::Snapshotter, &request);
        answer(snapshots::create(self, receive(request)).await)
    }

    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        self.note_request(Sidecar::Snapshotter, &request);
        answer(snapshots::delete(self, receive(request)).await)
    }

    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        answer(snapshots::list(self, receive(request)).await)
    }

    async fn get_snapshot(
        &self,
        request: Request<GetSnapshotRequest>,
    ) -> Result<Response<GetSnapshotResponse>, Status> {
        answer(snapshots::get(self, receive(request)).await)
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        self.note_request(Sidecar::Resizer, &request);
        answer(expand::run(self, receive(request)).await)
    }

    async fn get_capacity(
        &self,
        _request: Request<GetCapacityRequest>,
    ) -> Result<Response<GetCapacityResponse>, Status> {
        Err(unimplemented_rpc(Rpc::GetCapacity))
    }

    async fn controller_get_volume(
        &self,
        _request: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        Err(unimplemented_rpc(Rpc::ControllerGetVolume))
    }

    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Result<Response<ControllerModifyVolumeResponse>, Status> {
        self.note_request(Sidecar::Resizer, &request);
        answer(modify::run(self, receive(request)).await)
    }

    async fn controller_list_volume_health(
        &self,
        _request: Request<ControllerListVolumeHealthRequest>,
    ) -> Result<Response<ControllerListVolumeHealthResponse>, Status> {
        Err(unimplemented_rpc(Rpc::ControllerListVolumeHealth))
    }

    async fn controller_get_volume_health(
        &self,
        _request: Request<ControllerGetVolumeHealthRequest>,
    ) -> Result<Response<ControllerGetVolumeHealthResponse>, Status> {
        Err(unimplemented_rpc(Rpc::ControllerGetVolumeHealth))
    }
}

#[tonic::async_trait]
impl<E: Ec2> Modify for ControllerService<E> {
    async fn get_csi_driver_modification_capability(
        &self,
        _request: Request<GetCsiDriverModificationCapabilityRequest>,
    ) -> Result<Response<GetCsiDriverModificationCapabilityResponse>, Status> {
        Ok(Response::new(GetCsiDriverModificationCapabilityResponse {}))
    }

    async fn modify_volume_properties(
        &self,
        request: Request<ModifyVolumePropertiesRequest>,
    ) -> Result<Response<ModifyVolumePropertiesResponse>, Status> {
        self.note_request(Sidecar::VolumeModifier, &request);
        answer(modify::run_properties(self, receive(request)).await)
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! The Controller service: volumes, attachments and snapshots in EC2.

mod codes;
mod create_volume;
mod delete_volume;
mod error;
mod expand;
mod handle;
mod list_volumes;
mod modification;
mod modify;
mod node_local;
mod publish;
mod snapshots;
mod unpublish;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi;
use csi_proto::csi::controller_server::Controller;
use csi_proto::csi::controller_service_capability::{self, Type, rpc};
use csi_proto::modify::modify_server::Modify;
use csi_proto::modify::{
    GetCsiDriverModificationCapabilityRequest, GetCsiDriverModificationCapabilityResponse,
    ModifyVolumePropertiesRequest, ModifyVolumePropertiesResponse,
};
use ebs_cloud::{Cloud, Ec2, Sidecar};
use ebs_ec2::DriverName;
use tonic::{Request, Response, Status};

use crate::operation::Operations;
use crate::request_log::receive;
use crate::rpc::Rpc;
use crate::status::unimplemented_rpc;
use crate::tags::TagPolicy;
use crate::timeouts;

pub use error::ControllerError;

/// The reference driver's capabilities in its order, then the additional ones of this driver.
const CAPABILITIES: [rpc::Type; 9] = [
    rpc::Type::CreateDeleteVolume,
    rpc::Type::CloneVolume,
    rpc::Type::PublishUnpublishVolume,
    rpc::Type::CreateDeleteSnapshot,
    rpc::Type::ListSnapshots,
    rpc::Type::ExpandVolume,
    rpc::Type::ModifyVolume,
    rpc::Type::ListVolumes,
    rpc::Type::GetSnapshot,
];

#[derive(Debug, Clone)]
pub struct ControllerOptions {
    pub driver: DriverName,
    pub tags: TagPolicy,
    /// `--enable-node-local-volumes`: permits publishing volumes with handles `local-ebs://…`.
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
            modification_window: timeouts::MODIFICATION_WINDOW,
        }
    }
}

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
    /// Creates a service over `cloud`. The caller drains `operations` at shutdown.
    pub fn new(cloud: Arc<Cloud<E>>, options: ControllerOptions, operations: Operations) -> Self {
        Self { cloud, operations, options: Arc::new(options) }
    }

    fn record_connection<R>(&self, sidecar: Sidecar, request: &Request<R>) {
        self.cloud.record_request(sidecar, request.extensions().get().copied());
    }
}

/// Implements the service from a table. `from` names the sidecar whose calls show which driver is the leader.
macro_rules! controller_rpcs {
    (
        supported {
            $($method:ident($request:ident) -> $response:ident = $module:ident::$function:ident $(from $sidecar:ident)?;)+
        }
        unsupported { $($other:ident($other_request:ident) -> $other_response:ident = $rpc:ident;)+ }
    ) => {
        #[tonic::async_trait]
        impl<E: Ec2> Controller for ControllerService<E> {
            $(async fn $method(&self, request: Request<csi::$request>) -> Result<Response<csi::$response>, Status> {
                $(self.record_connection(Sidecar::$sidecar, &request);)?
                Ok(Response::new($module::$function(self, receive(request)).await?))
            })+

            $(async fn $other(
                &self,
                _request: Request<csi::$other_request>,
            ) -> Result<Response<csi::$other_response>, Status> {
                Err(unimplemented_rpc(Rpc::$rpc))
            })+

            async fn controller_get_capabilities(
                &self,
                _request: Request<csi::ControllerGetCapabilitiesRequest>,
            ) -> Result<Response<csi::ControllerGetCapabilitiesResponse>, Status> {
                let capability = |rpc: rpc::Type| csi::ControllerServiceCapability {
                    r#type: Some(Type::Rpc(controller_service_capability::Rpc { r#type: rpc.into() })),
                };
                let capabilities = CAPABILITIES.map(capability).to_vec();
                Ok(Response::new(csi::ControllerGetCapabilitiesResponse { capabilities }))
            }
        }
    };
}

controller_rpcs! {
    supported {
        create_volume(CreateVolumeRequest) -> CreateVolumeResponse = create_volume::run from Provisioner;
        delete_volume(DeleteVolumeRequest) -> DeleteVolumeResponse = delete_volume::run from Provisioner;
        controller_publish_volume(ControllerPublishVolumeRequest) -> ControllerPublishVolumeResponse
            = publish::run from Attacher;
        controller_unpublish_volume(ControllerUnpublishVolumeRequest) -> ControllerUnpublishVolumeResponse
            = unpublish::run from Attacher;
        validate_volume_capabilities(ValidateVolumeCapabilitiesRequest) -> ValidateVolumeCapabilitiesResponse
            = validate::run;
        list_volumes(ListVolumesRequest) -> ListVolumesResponse = list_volumes::run;
        create_snapshot(CreateSnapshotRequest) -> CreateSnapshotResponse = snapshots::create from Snapshotter;
        delete_snapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse = snapshots::delete from Snapshotter;
        list_snapshots(ListSnapshotsRequest) -> ListSnapshotsResponse = snapshots::list;
        get_snapshot(GetSnapshotRequest) -> GetSnapshotResponse = snapshots::get;
        controller_expand_volume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse
            = expand::run from Resizer;
        controller_modify_volume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse
            = modify::run from Resizer;
    }
    unsupported {
        get_capacity(GetCapacityRequest) -> GetCapacityResponse = GetCapacity;
        controller_get_volume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse = ControllerGetVolume;
        controller_list_volume_health(ControllerListVolumeHealthRequest) -> ControllerListVolumeHealthResponse
            = ControllerListVolumeHealth;
        controller_get_volume_health(ControllerGetVolumeHealthRequest) -> ControllerGetVolumeHealthResponse
            = ControllerGetVolumeHealth;
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
        self.record_connection(Sidecar::VolumeModifier, &request);
        Ok(Response::new(modify::run_properties(self, receive(request)).await?))
    }
}

#[cfg(test)]
pub(crate) mod tests;

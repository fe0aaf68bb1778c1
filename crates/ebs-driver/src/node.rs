//! The node service: stages, publishes, grows and inspects volumes on this machine.
//!
//! `request` turns a request into a typed plan. Mutations run as operations that outlive the request. The pure
//! functions of `decide` compare existing mounts with the request, and `ebs-mounter` handles the disks. Every call must
//! expect that a previous call did only a part of a step.

mod backlog;
mod corrupted;
mod decide;
mod error;
mod expand;
mod growth;
mod health;
mod info;
mod mutations;
mod other_use;
mod owner;
mod place_error;
mod publish;
mod repair;
mod request;
mod stage;
mod stats;
mod unmount;
mod wanted;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use csi_proto::csi::node_service_capability::{self, Type, rpc};
use ebs_metadata::{LimitFlags, Machine};
use ebs_mounter::Mounter;
use ebs_types::{DriverName, VolumeId};
use tonic::{Request, Response, Status};

use crate::operation::Operations;
use crate::request_log::receive;
use crate::rpc::Rpc;
use crate::status::{answer, unimplemented_rpc};

use backlog::Backlog;
pub use error::{Cause, NodeError, Refused};
pub use place_error::PlaceError;
pub use request::{Handle, RequestError};
pub use watch::{NotGrownVolume, UnhealthyVolume};

/// The settings of the node service, which do not change after start.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The driver's name, from which topology keys and publish-context keys derive.
    pub driver: DriverName,
    /// This machine. NodeGetInfo refreshes its metadata each time.
    pub machine: Arc<Machine>,
    /// `--volume-attach-limit` and `--reserved-volume-attachments`.
    pub limits: LimitFlags,
    /// `--legacy-xfs`: new xfs file systems without the features that kernels before 5.10 lack.
    pub legacy_xfs: bool,
}

/// The CSI node service. Clones share everything.
#[derive(Clone)]
pub struct NodeService {
    inner: Arc<Inner>,
}

struct Inner {
    options: NodeOptions,
    mounter: Mounter,
    operations: Operations,
    /// The result of the last check of all volumes, as status and reason.
    unhealthy: Mutex<BTreeMap<VolumeId, (&'static str, &'static str)>>,
    backlog: Backlog,
}

impl Inner {
    fn unhealthy(&self) -> MutexGuard<'_, BTreeMap<VolumeId, (&'static str, &'static str)>> {
        self.unhealthy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeService {
    /// Creates the service for this machine's disks.
    pub fn new(options: NodeOptions, mounter: Mounter, operations: Operations) -> Self {
        let (unhealthy, backlog) = (Mutex::default(), Backlog::default());
        Self { inner: Arc::new(Inner { options, mounter, operations, unhealthy, backlog }) }
    }

    /// Waits until the register of volumes is written, for at most `bound`. Returns false when the wait timed out. Call
    /// it at the end of the process, after its operations.
    pub async fn register_written(&self, bound: Duration) -> bool {
        self.inner.mounter.register_written(bound).await
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Result<Response<csi::NodeStageVolumeResponse>, Status> {
        answer(mutations::stage(&self.inner, receive(request)).await)
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Result<Response<csi::NodeUnstageVolumeResponse>, Status> {
        answer(mutations::unstage(&self.inner, receive(request)).await)
    }

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Result<Response<csi::NodePublishVolumeResponse>, Status> {
        answer(mutations::publish(&self.inner, receive(request)).await)
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<csi::NodeUnpublishVolumeResponse>, Status> {
        answer(mutations::unpublish(&self.inner, receive(request)).await)
    }

    async fn node_expand_volume(
        &self,
        request: Request<csi::NodeExpandVolumeRequest>,
    ) -> Result<Response<csi::NodeExpandVolumeResponse>, Status> {
        answer(mutations::expand(&self.inner, receive(request)).await)
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<csi::NodeGetVolumeStatsResponse>, Status> {
        answer(stats::run(&self.inner, &receive(request)).await)
    }

    async fn node_get_volume_health(
        &self,
        request: Request<csi::NodeGetVolumeHealthRequest>,
    ) -> Result<Response<csi::NodeGetVolumeHealthResponse>, Status> {
        answer(health::run(&self.inner, &receive(request)).await)
    }

    async fn node_get_storage_health(
        &self,
        _request: Request<csi::NodeGetStorageHealthRequest>,
    ) -> Result<Response<csi::NodeGetStorageHealthResponse>, Status> {
        Err(unimplemented_rpc(Rpc::NodeGetStorageHealth))
    }

    async fn node_get_capabilities(
        &self,
        _request: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<csi::NodeGetCapabilitiesResponse>, Status> {
        use rpc::Type::{ExpandVolume, GetVolumeHealth, GetVolumeStats, StageUnstageVolume};
        let capabilities = [StageUnstageVolume, ExpandVolume, GetVolumeStats, GetVolumeHealth];
        let capabilities = capabilities.map(|rpc| csi::NodeServiceCapability {
            r#type: Some(Type::Rpc(node_service_capability::Rpc { r#type: rpc.into() })),
        });
        Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities: capabilities.into() }))
    }

    async fn node_get_info(
        &self,
        request: Request<csi::NodeGetInfoRequest>,
    ) -> Result<Response<csi::NodeGetInfoResponse>, Status> {
        receive(request);
        Ok(Response::new(info::run(&self.inner).await))
    }
}

//! The CSI node service of Windows: stages, publishes, expands and measures volumes through [`winstorage`].
//!
//! It has the same layers as the node service of Linux. `request` turns a request into a typed plan. Mutations run as
//! operations that outlive the request, with the same keys. The steps below differ: disks are identified by their
//! serial numbers, file systems are NTFS, a staged volume is a mount point, and a published one is a link to it. Each
//! call can continue a flow that another process has left incomplete.
//!
//! This crate compiles on every system. The caller selects the machine of [`winstorage::Storage`], which may also be
//! behind csi-proxy ([`OverProxy`]).
#![warn(missing_docs)]

mod disks;
mod error;
mod expand;
mod mutations;
mod over_proxy;
mod proxy_error;
mod publish;
mod request;
mod stage;
mod stats;
mod storage;
mod unstage;

use std::sync::Arc;

use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use csi_proto::csi::node_service_capability::{self, Type, rpc};
use ebs_driver::node_info;
use ebs_driver::operation::Operations;
use ebs_driver::request_log::receive;
use ebs_driver::rpc::Rpc;
use ebs_driver::status::{answer, unimplemented_rpc};
use ebs_metadata::{LimitFlags, Machine};
use ebs_types::DriverName;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

pub use error::{Cause, NodeError, Refused};
pub use over_proxy::{OverProxy, Unproven};
pub use proxy_error::ProxyError;
pub use request::RequestError;
pub use storage::{NodeStorage, Role, Seen};

use disks::Disks;

/// The name of the system in Kubernetes.
const OS: &str = "windows";

/// Concurrent operations that block a thread. Each thread that has used WMI keeps its own connections.
const PLACES: usize = 16;

/// The settings of the node service.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The driver's name, from which topology keys and publish-context keys derive.
    pub driver: DriverName,
    /// The properties of this machine, queried again for each request of the orchestrator.
    pub machine: Arc<Machine>,
    /// `--volume-attach-limit` and `--reserved-volume-attachments`.
    pub limits: LimitFlags,
}

/// The CSI node service of Windows. Clones share their state.
#[derive(Clone)]
pub struct WindowsNode {
    inner: Arc<Inner>,
}

struct Inner {
    options: NodeOptions,
    disks: Arc<Disks>,
    operations: Operations,
    places: Semaphore,
}

impl WindowsNode {
    /// Creates a service on this machine's storage: a [`winstorage::Storage`], or a proxy's.
    pub fn new(options: NodeOptions, storage: Arc<dyn NodeStorage>, operations: Operations) -> Self {
        let xen = ebs_types::is_xen(&options.machine.metadata().instance_type);
        let disks = Arc::new(Disks { storage, xen });
        Self { inner: Arc::new(Inner { options, disks, operations, places: Semaphore::new(PLACES) }) }
    }
}

impl Inner {
    /// Runs blocking work on a thread that may block. A panic there propagates.
    ///
    /// Cancellation: the work continues to its end.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Disks) -> T + Send + 'static) -> T {
        // The semaphore is never closed.
        let _place = self.places.acquire().await;
        let (disks, span) = (Arc::clone(&self.disks), tracing::Span::current());
        let done = tokio::task::spawn_blocking(move || span.in_scope(|| work(&disks))).await;
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

#[tonic::async_trait]
impl Node for WindowsNode {
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
        answer(stats::run(&self.inner, receive(request)).await)
    }

    async fn node_get_volume_health(
        &self,
        _request: Request<csi::NodeGetVolumeHealthRequest>,
    ) -> Result<Response<csi::NodeGetVolumeHealthResponse>, Status> {
        Err(unimplemented_rpc(Rpc::NodeGetVolumeHealth))
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
        use rpc::Type::{ExpandVolume, GetVolumeStats, StageUnstageVolume};
        let capabilities = [StageUnstageVolume, ExpandVolume, GetVolumeStats].map(|rpc| csi::NodeServiceCapability {
            r#type: Some(Type::Rpc(node_service_capability::Rpc { r#type: rpc.into() })),
        });
        Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities: capabilities.into() }))
    }

    async fn node_get_info(
        &self,
        request: Request<csi::NodeGetInfoRequest>,
    ) -> Result<Response<csi::NodeGetInfoResponse>, Status> {
        receive(request);
        let (metadata, options) = (self.inner.options.machine.refreshed().await, &self.inner.options);
        Ok(Response::new(node_info::answer(&metadata, &options.driver, &options.limits, 0, OS)))
    }
}

#[cfg(test)]
mod tests;

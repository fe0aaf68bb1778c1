//! The node service: stage, publish, grow and look at volumes on this machine.
//!
//! A request becomes a typed plan (`request`); mutations run as operations that outlive the request
//! (`decisions.md` D-10). What is mounted already is judged by pure functions (`decide`); disks are `ebs-mounter`'s.
//! Every step of a flow can be found half done by the next call.

mod decide;
mod error;
mod expand;
mod health;
mod info;
mod other_use;
mod owner;
mod publish;
mod request;
mod stage;
mod stats;
mod unmount;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use csi_proto::csi::node_service_capability::{Rpc, Type, rpc};
use ebs_metadata::{Imds, LimitFlags, NodeMetadata};
use ebs_mounter::{Mounter, NodePath};
use ebs_types::{DriverName, VolumeId};
use tonic::{Request, Response, Status};

use crate::bounds::{Operation, bound};
use crate::operation::{Key, Operations};
use crate::request_log;
use crate::status::{to_status, unimplemented_rpc};

pub use error::{Cause, NodeError, Refused};
pub use request::{Handle, RequestError};

/// What the node service is told once, at start.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The driver's name: topology keys and publish-context keys derive from it.
    pub driver: DriverName,
    /// What this machine is, as read at start.
    pub metadata: NodeMetadata,
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
    /// For the count of network interfaces; `None` when metadata did not come from IMDS.
    imds: Option<Imds>,
    /// The count as last heard.
    interfaces: AtomicU32,
    mounter: Mounter,
    operations: Operations,
}

impl NodeService {
    /// A service over this machine's disks. `imds`, where given, is asked again for the number of network interfaces
    /// each time the orchestrator asks for the attachment limit.
    pub fn new(options: NodeOptions, imds: Option<Imds>, mounter: Mounter, operations: Operations) -> Self {
        let interfaces = AtomicU32::new(options.metadata.network_interfaces);
        Self { inner: Arc::new(Inner { options, imds, interfaces, mounter, operations }) }
    }
}

/// The key of publish and unpublish: a volume may be published at several targets at once.
fn target_key(volume: &VolumeId, target: &NodePath) -> Key {
    Key::NodeTarget { volume: volume.clone(), target: target.as_path().to_owned() }
}

/// The key of unstage and unpublish: of a volume of EC2's the one given, of another one its own.
fn unmount_key(plan: &request::Unmount, of_volume: impl FnOnce(&VolumeId) -> Key) -> Key {
    match &plan.volume {
        Handle::Volume(volume) => of_volume(volume),
        Handle::NodeLocal(handle) => Key::NodeLocal { handle: handle.clone(), path: plan.path.as_path().to_owned() },
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Result<Response<csi::NodeStageVolumeResponse>, Status> {
        let request = request.into_inner();
        request_log::received(&request);
        let options = &self.inner.options;
        let plan = request::Stage::parse(&request, &options.driver, options.legacy_xfs).map_err(|e| to_status(&e))?;
        let Some(plan) = plan else { return Ok(Response::new(csi::NodeStageVolumeResponse {})) };
        let key = Key::NodeVolume(plan.volume.clone());
        let (node, work) = (Arc::clone(&self.inner), plan.clone());
        let work = move |waiters| async move {
            let outcome = Box::pin(stage::run(&node, &work, &waiters)).await;
            outcome.map_err(NodeError::of("staging", &work.volume, &work.staging))
        };
        let done = self.inner.operations.run(key, plan, bound(Operation::NodeStageVolume), work).await;
        done.map(|()| Response::new(csi::NodeStageVolumeResponse {})).map_err(|e| to_status(&e))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Result<Response<csi::NodeUnstageVolumeResponse>, Status> {
        let request = request.into_inner();
        request_log::received(&request);
        let plan = request::Unmount::unstage(&request).map_err(|e| to_status(&e))?;
        let key = unmount_key(&plan, |volume| Key::NodeVolume(volume.clone()));
        let (node, work) = (Arc::clone(&self.inner), plan.clone());
        let work = move |waiters| async move {
            let outcome = Box::pin(unmount::unstage(&node, &work, &waiters)).await;
            outcome.map_err(NodeError::of("unstaging", &work.volume, &work.path))
        };
        let done = self.inner.operations.take_over(key, plan, bound(Operation::NodeUnstageVolume), work).await;
        done.map(|()| Response::new(csi::NodeUnstageVolumeResponse {})).map_err(|e| to_status(&e))
    }

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Result<Response<csi::NodePublishVolumeResponse>, Status> {
        let request = request.into_inner();
        request_log::received(&request);
        let plan = request::Publish::parse(&request, &self.inner.options.driver).map_err(|e| to_status(&e))?;
        let key = target_key(&plan.volume, &plan.target);
        let (node, work) = (Arc::clone(&self.inner), plan.clone());
        let work = move |waiters| async move {
            let outcome = Box::pin(publish::run(&node, &work, &waiters)).await;
            outcome.map_err(NodeError::of("publishing", &work.volume, &work.target))
        };
        let done = self.inner.operations.run(key, plan, bound(Operation::NodePublishVolume), work).await;
        done.map(|()| Response::new(csi::NodePublishVolumeResponse {})).map_err(|e| to_status(&e))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<csi::NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        request_log::received(&request);
        let plan = request::Unmount::unpublish(&request).map_err(|e| to_status(&e))?;
        let key = unmount_key(&plan, |volume| target_key(volume, &plan.path));
        let (node, work) = (Arc::clone(&self.inner), plan.clone());
        let work = move |waiters| async move {
            let outcome = unmount::unpublish(&node, &work, &waiters).await;
            outcome.map_err(NodeError::of("unpublishing", &work.volume, &work.path))
        };
        let done = self.inner.operations.take_over(key, plan, bound(Operation::NodeUnpublishVolume), work).await;
        done.map(|()| Response::new(csi::NodeUnpublishVolumeResponse {})).map_err(|e| to_status(&e))
    }

    async fn node_expand_volume(
        &self,
        request: Request<csi::NodeExpandVolumeRequest>,
    ) -> Result<Response<csi::NodeExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        request_log::received(&request);
        let plan = request::Expand::parse(&request).map_err(|e| to_status(&e))?;
        if plan.is_block == Some(true) {
            // A raw device follows its volume; there is nothing to grow.
            return Ok(Response::new(csi::NodeExpandVolumeResponse { capacity_bytes: 0 }));
        }
        let key = Key::NodeGrowth(plan.volume.clone());
        let (node, work) = (Arc::clone(&self.inner), plan.clone());
        let work = move |waiters| async move {
            let outcome = Box::pin(expand::run(&node, &work, &waiters)).await;
            outcome.map_err(NodeError::of("expanding", &work.volume, &work.path))
        };
        let done = self.inner.operations.run(key, plan, bound(Operation::NodeExpandVolume), work).await;
        let reply = |size: ebs_types::Bytes| csi::NodeExpandVolumeResponse { capacity_bytes: size.to_wire() };
        done.map(|size| Response::new(reply(size))).map_err(|e| to_status(&e))
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<csi::NodeGetVolumeStatsResponse>, Status> {
        let plan = request::Look::stats(request.get_ref()).map_err(|e| to_status(&e))?;
        let done = stats::run(&self.inner, &plan).await;
        done.map(Response::new)
            .map_err(|cause| to_status(&NodeError::of("statistics", &plan.volume, &plan.path)(cause)))
    }

    async fn node_get_volume_health(
        &self,
        request: Request<csi::NodeGetVolumeHealthRequest>,
    ) -> Result<Response<csi::NodeGetVolumeHealthResponse>, Status> {
        let plan = request::Health::parse(request.get_ref()).map_err(|e| to_status(&e))?;
        let done = health::run(&self.inner, &plan).await;
        done.map(Response::new).map_err(|cause| match plan.path {
            Some(path) => to_status(&NodeError::of("health", &plan.volume, &path)(cause)),
            None => to_status(&NodeError::Anywhere { rpc: "health", volume: plan.volume, cause }),
        })
    }

    async fn node_get_storage_health(
        &self,
        _request: Request<csi::NodeGetStorageHealthRequest>,
    ) -> Result<Response<csi::NodeGetStorageHealthResponse>, Status> {
        Err(unimplemented_rpc("NodeGetStorageHealth"))
    }

    async fn node_get_capabilities(
        &self,
        _request: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<csi::NodeGetCapabilitiesResponse>, Status> {
        use rpc::Type::{ExpandVolume, GetVolumeHealth, GetVolumeStats, StageUnstageVolume};
        let capabilities = [StageUnstageVolume, ExpandVolume, GetVolumeStats, GetVolumeHealth];
        let capabilities =
            capabilities.map(|rpc| csi::NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: rpc.into() })) });
        Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities: capabilities.into() }))
    }

    async fn node_get_info(
        &self,
        _request: Request<csi::NodeGetInfoRequest>,
    ) -> Result<Response<csi::NodeGetInfoResponse>, Status> {
        Ok(Response::new(info::run(&self.inner).await))
    }
}

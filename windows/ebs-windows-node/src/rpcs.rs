//! The node RPCs. A mutating RPC parses its request, and runs its work as an operation that outlives the request, with
//! the keys of every node.

use std::sync::Arc;

use csi_proto::csi;
use ebs_driver::csi_node::{NodeCapability, NodeRpcs};
use ebs_driver::node_info;
use ebs_driver::operation::Key;
use ebs_driver::rpc::Rpc;
use ebs_driver::volume_handle::VolumeHandle;
use ebs_ec2::VolumeId;
use tonic::Status;
use winstorage::types::WinPath;

use crate::error::NodeError;
use crate::request::{self, At, key_of};
use crate::{WindowsNode, growth, publish, stage, stats, unstage};

/// The name of the system in Kubernetes.
const OS: &str = "windows";

#[tonic::async_trait]
impl NodeRpcs for WindowsNode {
    const CAPABILITIES: &'static [NodeCapability] =
        &[NodeCapability::StageUnstageVolume, NodeCapability::ExpandVolume, NodeCapability::GetVolumeStats];

    async fn info(&self) -> csi::NodeGetInfoResponse {
        let (metadata, options) = (self.options.machine.refreshed().await, &self.options);
        node_info::response(&metadata, &options.driver, &options.limits, 0, OS)
    }

    async fn stage(
        node: &Arc<Self>,
        request: csi::NodeStageVolumeRequest,
    ) -> Result<csi::NodeStageVolumeResponse, Status> {
        let plan = request::Stage::parse(&request, &node.options.driver)?;
        let (shared, wanted) = (Arc::clone(node), plan.clone());
        let work = move |waiters| async move {
            let work = move |disks: &_| {
                let ended = stage::run(disks, &wanted, &waiters);
                ended.map_err(NodeError::during(Rpc::NodeStageVolume, &wanted.volume, &wanted.staging))
            };
            shared.blocking(work).await
        };
        let key = volume_key(&plan.volume);
        node.operations.run_exclusive(key, plan, Rpc::NodeStageVolume.timeout(), work).await?;
        Ok(csi::NodeStageVolumeResponse {})
    }

    async fn unstage(
        node: &Arc<Self>,
        request: csi::NodeUnstageVolumeRequest,
    ) -> Result<csi::NodeUnstageVolumeResponse, Status> {
        let plan = At::unstage(&request)?;
        let (shared, wanted) = (Arc::clone(node), plan.clone());
        let work = move |waiters| async move {
            let work = move |disks: &_| {
                let ended = unstage::run(disks, &wanted, &waiters);
                ended.map_err(NodeError::during(Rpc::NodeUnstageVolume, &wanted.volume, &wanted.path))
            };
            shared.blocking(work).await
        };
        let key = volume_key(&plan.volume);
        node.operations.run(key, plan, Rpc::NodeUnstageVolume.timeout(), work).await?;
        Ok(csi::NodeUnstageVolumeResponse {})
    }

    async fn publish(
        node: &Arc<Self>,
        request: csi::NodePublishVolumeRequest,
    ) -> Result<csi::NodePublishVolumeResponse, Status> {
        let plan = request::Publish::parse(&request)?;
        let (shared, wanted) = (Arc::clone(node), plan.clone());
        let work = move |waiters| async move {
            let work = move |disks: &_| {
                let ended = publish::run(disks, &wanted, &waiters);
                ended.map_err(NodeError::during(Rpc::NodePublishVolume, &wanted.volume, &wanted.target))
            };
            shared.blocking(work).await
        };
        let key = target_key(&plan.volume, &plan.target);
        node.operations.run_exclusive(key, plan, Rpc::NodePublishVolume.timeout(), work).await?;
        Ok(csi::NodePublishVolumeResponse {})
    }

    async fn unpublish(
        node: &Arc<Self>,
        request: csi::NodeUnpublishVolumeRequest,
    ) -> Result<csi::NodeUnpublishVolumeResponse, Status> {
        let plan = At::unpublish(&request)?;
        let (shared, wanted) = (Arc::clone(node), plan.clone());
        let work = move |_waiters| async move {
            let work = move |disks: &_| {
                let ended = publish::unpublish(disks, &wanted);
                ended.map_err(NodeError::during(Rpc::NodeUnpublishVolume, &wanted.volume, &wanted.path))
            };
            shared.blocking(work).await
        };
        let key = target_key(&plan.volume, &plan.path);
        node.operations.run(key, plan, Rpc::NodeUnpublishVolume.timeout(), work).await?;
        Ok(csi::NodeUnpublishVolumeResponse {})
    }

    async fn expand(
        node: &Arc<Self>,
        request: csi::NodeExpandVolumeRequest,
    ) -> Result<csi::NodeExpandVolumeResponse, Status> {
        // A raw block volume has no file system to grow.
        let Some(plan) = request::Expand::parse(&request)? else {
            return Ok(csi::NodeExpandVolumeResponse { capacity_bytes: 0 });
        };
        let (shared, wanted) = (Arc::clone(node), plan.clone());
        let work = move |waiters| async move {
            let work = move |disks: &_| {
                let ended = growth::expand(disks, &wanted, &waiters);
                ended.map_err(NodeError::during(Rpc::NodeExpandVolume, &wanted.at.volume, &wanted.at.path))
            };
            shared.blocking(work).await
        };
        let key = Key::NodeGrowth(VolumeHandle::Volume(plan.at.volume.clone()));
        let size = node.operations.run_exclusive(key, plan, Rpc::NodeExpandVolume.timeout(), work).await?;
        Ok(csi::NodeExpandVolumeResponse { capacity_bytes: size.to_wire() })
    }

    async fn stats(
        node: &Arc<Self>,
        request: csi::NodeGetVolumeStatsRequest,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Status> {
        Ok(stats::run(node, request).await?)
    }
}

/// Returns the key of stage and unstage.
fn volume_key(volume: &VolumeId) -> Key {
    Key::NodeVolume(VolumeHandle::Volume(volume.clone()))
}

/// Returns the key of publish and unpublish. A volume may be published at several targets concurrently.
fn target_key(volume: &VolumeId, target: &WinPath) -> Key {
    Key::NodeTarget { volume: VolumeHandle::Volume(volume.clone()), target: key_of(target) }
}

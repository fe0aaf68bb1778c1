//! The node RPCs. A mutating RPC parses its request and runs its work as an operation that outlives the request. The
//! operations have the same keys as on Linux.

use std::sync::Arc;

use csi_proto::csi;
use ebs_driver::csi_node::{NodeCapability, NodeRpcs};
use ebs_driver::node_info;
use ebs_driver::operation::{Content, Key};
use ebs_driver::rpc::Rpc;
use ebs_driver::volume_handle::VolumeHandle;
use ebs_ec2::{VolumeId, Waiters};
use tonic::Status;
use winstorage::types::WinPath;

use crate::disks::Disks;
use crate::error::{Cause, NodeError};
use crate::request::{self, At, key_of};
use crate::{WindowsNode, growth, publish, stage, stats, unstage};

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
        let (key, at) = (volume_key(&plan.volume), (plan.volume.clone(), plan.staging.clone()));
        Mutation { rpc: Rpc::NodeStageVolume, key, at, supersedes: false, work: stage::run }.run(node, plan).await?;
        Ok(csi::NodeStageVolumeResponse {})
    }

    async fn unstage(
        node: &Arc<Self>,
        request: csi::NodeUnstageVolumeRequest,
    ) -> Result<csi::NodeUnstageVolumeResponse, Status> {
        let plan = At::unstage(&request)?;
        let (key, at) = (volume_key(&plan.volume), (plan.volume.clone(), plan.path.clone()));
        Mutation { rpc: Rpc::NodeUnstageVolume, key, at, supersedes: true, work: unstage::run }.run(node, plan).await?;
        Ok(csi::NodeUnstageVolumeResponse {})
    }

    async fn publish(
        node: &Arc<Self>,
        request: csi::NodePublishVolumeRequest,
    ) -> Result<csi::NodePublishVolumeResponse, Status> {
        let plan = request::Publish::parse(&request)?;
        let (key, at) = (target_key(&plan.volume, &plan.target), (plan.volume.clone(), plan.target.clone()));
        Mutation { rpc: Rpc::NodePublishVolume, key, at, supersedes: false, work: publish::run }
            .run(node, plan)
            .await?;
        Ok(csi::NodePublishVolumeResponse {})
    }

    async fn unpublish(
        node: &Arc<Self>,
        request: csi::NodeUnpublishVolumeRequest,
    ) -> Result<csi::NodeUnpublishVolumeResponse, Status> {
        let plan = At::unpublish(&request)?;
        let (key, at) = (target_key(&plan.volume, &plan.path), (plan.volume.clone(), plan.path.clone()));
        let work = publish::unpublish;
        Mutation { rpc: Rpc::NodeUnpublishVolume, key, at, supersedes: true, work }.run(node, plan).await?;
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
        let key = Key::NodeGrowth(VolumeHandle::Volume(plan.at.volume.clone()));
        let at = (plan.at.volume.clone(), plan.at.path.clone());
        let mutation = Mutation { rpc: Rpc::NodeExpandVolume, key, at, supersedes: false, work: growth::expand };
        let size = mutation.run(node, plan).await?;
        Ok(csi::NodeExpandVolumeResponse { capacity_bytes: size.to_wire() })
    }

    async fn stats(
        node: &Arc<Self>,
        request: csi::NodeGetVolumeStatsRequest,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Status> {
        Ok(stats::run(node, request).await?)
    }
}

struct Mutation<P, T> {
    rpc: Rpc,
    key: Key,
    at: (VolumeId, WinPath),
    /// Whether this operation asks a running operation with the same key to end.
    supersedes: bool,
    work: fn(&Disks, &P, &Waiters) -> Result<T, Cause>,
}

impl<P: Content + Clone, T: Clone + Send + Sync + 'static> Mutation<P, T> {
    /// Runs the work as an operation, which outlives the request.
    async fn run(self, node: &Arc<WindowsNode>, plan: P) -> Result<T, Status> {
        let Self { rpc, key, at: (volume, path), supersedes, work } = self;
        let (shared, wanted) = (Arc::clone(node), plan.clone());
        let work = move |waiters| async move {
            let work = move |disks: &_| work(disks, &wanted, &waiters);
            shared.blocking(work).await.map_err(NodeError::during(rpc, &volume, &path))
        };
        Ok(match supersedes {
            true => node.operations.run(key, plan, rpc.timeout(), work).await?,
            false => node.operations.without_takeover().run(key, plan, rpc.timeout(), work).await?,
        })
    }
}

fn volume_key(volume: &VolumeId) -> Key {
    Key::NodeVolume(VolumeHandle::Volume(volume.clone()))
}

/// Returns the key of NodePublishVolume and NodeUnpublishVolume. A volume may be published at several targets
/// concurrently.
fn target_key(volume: &VolumeId, target: &WinPath) -> Key {
    Key::NodeTarget { volume: VolumeHandle::Volume(volume.clone()), target: key_of(target) }
}

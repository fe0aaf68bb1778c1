//! The node RPCs. Each mutating RPC parses its request, and then works in an operation that outlives the request.

use std::path::Path;
use std::sync::Arc;

use csi_proto::csi;
use ebs_ec2::VolumeId;
use ebs_mounter::{Attacher, NodePath};
use tokio::time::Instant;
use tonic::Status;

use super::error::NodeError;
use super::place_error::PlaceError;
use super::request::{self, Handle};
use super::{LinuxNode, expand, health, owner, publish, stage, stats, unmount};
use crate::csi_node::{NodeCapability, NodeRpcs};
use crate::node_info;
use crate::operation::Key;
use crate::rpc::Rpc;

#[tonic::async_trait]
impl NodeRpcs for LinuxNode {
    const CAPABILITIES: &'static [NodeCapability] = &[
        NodeCapability::StageUnstageVolume,
        NodeCapability::ExpandVolume,
        NodeCapability::GetVolumeStats,
        NodeCapability::GetVolumeHealth,
    ];

    /// Returns the node's metadata, or the last known metadata when the source does not answer.
    async fn info(&self) -> csi::NodeGetInfoResponse {
        let (metadata, options) = (self.options.machine.refreshed().await, &self.options);
        let own = self.mounter.own_volumes_at_boot();
        node_info::response(&metadata, &options.driver, &options.limits, own, std::env::consts::OS)
    }

    /// Stages a volume. [`PlaceError`] ensures that no error has a final code while something is mounted at the path.
    async fn stage(
        node: &Arc<Self>,
        request: csi::NodeStageVolumeRequest,
    ) -> Result<csi::NodeStageVolumeResponse, Status> {
        let options = &node.options;
        let plan = match request::Stage::parse(&request, &options.driver, options.legacy_xfs) {
            Ok(Some(plan)) => plan,
            Ok(None) => return Ok(csi::NodeStageVolumeResponse {}),
            Err(error) => {
                let staging = NodePath::parse(&request.staging_target_path).ok();
                return Err(PlaceError::of_stage(error.into(), staging.as_ref()).await.into());
            }
        };
        let key = Key::NodeVolume(plan.handle.clone());
        let (shared, wanted) = (Arc::clone(node), plan.clone());
        let work = move |waiters| async move {
            if let Err(cause) = Box::pin(stage::run(&shared, &wanted, &waiters)).await {
                let error = NodeError::during(Rpc::NodeStageVolume, &wanted.handle, Some(&wanted.staging))(cause);
                return Err(PlaceError::of_stage(error, Some(&wanted.staging)).await);
            }
            register(&shared, (&wanted.handle, &wanted.volume), &wanted.staging, wanted.attachment.device.as_deref());
            Ok(())
        };
        node.operations.without_takeover().run(key, plan, Rpc::NodeStageVolume.timeout(), work).await?;
        Ok(csi::NodeStageVolumeResponse {})
    }

    async fn unstage(
        node: &Arc<Self>,
        request: csi::NodeUnstageVolumeRequest,
    ) -> Result<csi::NodeUnstageVolumeResponse, Status> {
        let plan = request::VolumePath::unstage(&request)?;
        let key = Key::NodeVolume(plan.volume.clone());
        let (shared, wanted) = (Arc::clone(node), plan.clone());
        let work = move |waiters| async move {
            let ended = Box::pin(unmount::unstage(&shared, &wanted, &waiters)).await;
            ended.map_err(NodeError::during(Rpc::NodeUnstageVolume, &wanted.volume, Some(&wanted.path)))?;
            shared.mounter.unregister(&wanted.path);
            if let Handle::Volume(volume) = &wanted.volume {
                shared.mounter.forget_volume(volume);
            }
            Ok::<_, NodeError>(())
        };
        let (start, timeout) = (Instant::now(), Rpc::NodeUnstageVolume.timeout());
        let in_the_way = [Key::NodeGrowth(plan.volume.clone()), key.clone()];
        if node.operations.running().iter().any(|held| in_the_way.contains(held)) {
            // Thaw first: an operation that a frozen file system blocks in the kernel would never release the key. A
            // thaw that exceeds the timeout continues in the background.
            let _elapsed = tokio::time::timeout(timeout, unmount::thaw_unused(node, &plan)).await;
        }
        node.operations.run(key, plan, timeout.saturating_sub(start.elapsed()), work).await?;
        Ok(csi::NodeUnstageVolumeResponse {})
    }

    /// Publishes a volume. [`PlaceError`] ensures that no error has a final code while the volume is mounted at the
    /// target path.
    async fn publish(
        node: &Arc<Self>,
        request: csi::NodePublishVolumeRequest,
    ) -> Result<csi::NodePublishVolumeResponse, Status> {
        let plan = match request::Publish::parse(&request, &node.options.driver) {
            Ok(plan) => plan,
            Err(error) => {
                let target = NodePath::parse(&request.target_path).ok();
                return Err(PlaceError::of_publish(node, error.into(), None, target.as_ref()).await.into());
            }
        };
        let key = target_key(&plan.handle, &plan.target);
        let (shared, wanted) = (Arc::clone(node), plan.clone());
        let work = move |waiters| async move {
            if let Err(cause) = Box::pin(publish::run(&shared, &wanted, &waiters)).await {
                let error = NodeError::during(Rpc::NodePublishVolume, &wanted.handle, Some(&wanted.target))(cause);
                return Err(PlaceError::of_publish(&shared, error, Some(&wanted.handle), Some(&wanted.target)).await);
            }
            register(&shared, (&wanted.handle, &wanted.volume), &wanted.target, wanted.device.as_deref());
            Ok(())
        };
        node.operations.without_takeover().run(key, plan, Rpc::NodePublishVolume.timeout(), work).await?;
        Ok(csi::NodePublishVolumeResponse {})
    }

    async fn unpublish(
        node: &Arc<Self>,
        request: csi::NodeUnpublishVolumeRequest,
    ) -> Result<csi::NodeUnpublishVolumeResponse, Status> {
        let plan = request::VolumePath::unpublish(&request)?;
        let key = target_key(&plan.volume, &plan.path);
        let (shared, wanted) = (Arc::clone(node), plan.clone());
        let work = move |waiters| async move {
            let ended = unmount::unpublish(&shared, &wanted, &waiters).await;
            ended.map_err(NodeError::during(Rpc::NodeUnpublishVolume, &wanted.volume, Some(&wanted.path)))?;
            shared.mounter.unregister(&wanted.path);
            Ok::<_, NodeError>(())
        };
        node.operations.run(key, plan, Rpc::NodeUnpublishVolume.timeout(), work).await?;
        Ok(csi::NodeUnpublishVolumeResponse {})
    }

    async fn expand(
        node: &Arc<Self>,
        request: csi::NodeExpandVolumeRequest,
    ) -> Result<csi::NodeExpandVolumeResponse, Status> {
        let plan = request::Expand::parse(&request)?;
        if plan.is_block == Some(true) {
            // A raw device grows with its volume, so nothing has to be done.
            return Ok(csi::NodeExpandVolumeResponse { capacity_bytes: 0 });
        }
        let key = Key::NodeGrowth(plan.handle.clone());
        let (shared, wanted) = (Arc::clone(node), plan.clone());
        let work = move |waiters| async move {
            let grow = async {
                let volume = owner::named(&shared.mounter, &wanted.handle, &wanted.path).await?;
                expand::run(&shared, &volume, &wanted, &waiters).await
            };
            Box::pin(grow).await.map_err(NodeError::during(Rpc::NodeExpandVolume, &wanted.handle, Some(&wanted.path)))
        };
        let size = node.operations.without_takeover().run(key, plan, Rpc::NodeExpandVolume.timeout(), work).await?;
        Ok(csi::NodeExpandVolumeResponse { capacity_bytes: size.to_wire() })
    }

    async fn stats(
        node: &Arc<Self>,
        request: csi::NodeGetVolumeStatsRequest,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Status> {
        Ok(stats::run(node, &request).await?)
    }

    async fn health(
        node: &Arc<Self>,
        request: csi::NodeGetVolumeHealthRequest,
    ) -> Result<csi::NodeGetVolumeHealthResponse, Status> {
        Ok(health::run(node, &request).await?)
    }
}

fn register(node: &LinuxNode, (handle, volume): (&Handle, &VolumeId), at: &NodePath, device: Option<&Path>) {
    let attacher = match handle {
        Handle::Volume(_) => Attacher::Driver,
        Handle::NodeLocal(_) => Attacher::Other,
    };
    node.mounter.register(volume, attacher, at, device);
}

/// Returns the key of publish and unpublish. It includes the target: a volume may be published at several targets.
fn target_key(volume: &Handle, target: &NodePath) -> Key {
    Key::NodeTarget { volume: volume.clone(), target: target.as_path().to_owned() }
}

//! The mutating node RPCs. Each parses its request, and runs its work as an operation that outlives the request, with
//! the keys of every node.

use std::sync::Arc;

use csi_proto::csi;
use ebs_driver::operation::{Key, OperationError};
use ebs_driver::rpc::Rpc;
use ebs_driver::volume_handle::VolumeHandle;
use ebs_types::VolumeId;
use winstorage::types::WinPath;

use crate::error::NodeError;
use crate::request::{self, At, RequestError, key_of};
use crate::{Inner, expand as growth, publish as link, stage as staging, unstage as unstaging};

type Ended<T> = Result<T, OperationError<NodeError>>;

pub(crate) async fn stage(
    node: &Arc<Inner>,
    request: csi::NodeStageVolumeRequest,
) -> Ended<csi::NodeStageVolumeResponse> {
    let plan = request::Stage::parse(&request, &node.options.driver).map_err(refused)?;
    let (shared, wanted) = (Arc::clone(node), plan.clone());
    let work = move |waiters| async move {
        let work = move |disks: &_| {
            let ended = staging::run(disks, &wanted, &waiters);
            ended.map_err(NodeError::of(Rpc::NodeStageVolume, &wanted.volume, &wanted.staging))
        };
        shared.blocking(work).await
    };
    node.operations.run(whole(&plan.volume), plan, Rpc::NodeStageVolume.bound(), work).await?;
    Ok(csi::NodeStageVolumeResponse {})
}

pub(crate) async fn unstage(
    node: &Arc<Inner>,
    request: csi::NodeUnstageVolumeRequest,
) -> Ended<csi::NodeUnstageVolumeResponse> {
    let plan = At::unstage(&request).map_err(refused)?;
    let (shared, wanted) = (Arc::clone(node), plan.clone());
    let work = move |waiters| async move {
        let work = move |disks: &_| {
            let ended = unstaging::run(disks, &wanted, &waiters);
            ended.map_err(NodeError::of(Rpc::NodeUnstageVolume, &wanted.volume, &wanted.path))
        };
        shared.blocking(work).await
    };
    node.operations.take_over(whole(&plan.volume), plan, Rpc::NodeUnstageVolume.bound(), work).await?;
    Ok(csi::NodeUnstageVolumeResponse {})
}

pub(crate) async fn publish(
    node: &Arc<Inner>,
    request: csi::NodePublishVolumeRequest,
) -> Ended<csi::NodePublishVolumeResponse> {
    let plan = request::Publish::parse(&request).map_err(refused)?;
    let (shared, wanted) = (Arc::clone(node), plan.clone());
    let work = move |waiters| async move {
        let work = move |disks: &_| {
            let ended = link::run(disks, &wanted, &waiters);
            ended.map_err(NodeError::of(Rpc::NodePublishVolume, &wanted.volume, &wanted.target))
        };
        shared.blocking(work).await
    };
    let key = target(&plan.volume, &plan.target);
    node.operations.run(key, plan, Rpc::NodePublishVolume.bound(), work).await?;
    Ok(csi::NodePublishVolumeResponse {})
}

pub(crate) async fn unpublish(
    node: &Arc<Inner>,
    request: csi::NodeUnpublishVolumeRequest,
) -> Ended<csi::NodeUnpublishVolumeResponse> {
    let plan = At::unpublish(&request).map_err(refused)?;
    let (shared, wanted) = (Arc::clone(node), plan.clone());
    let work = move |_waiters| async move {
        let work = move |disks: &_| {
            let ended = link::unpublish(disks, &wanted);
            ended.map_err(NodeError::of(Rpc::NodeUnpublishVolume, &wanted.volume, &wanted.path))
        };
        shared.blocking(work).await
    };
    let key = target(&plan.volume, &plan.path);
    node.operations.take_over(key, plan, Rpc::NodeUnpublishVolume.bound(), work).await?;
    Ok(csi::NodeUnpublishVolumeResponse {})
}

pub(crate) async fn expand(
    node: &Arc<Inner>,
    request: csi::NodeExpandVolumeRequest,
) -> Ended<csi::NodeExpandVolumeResponse> {
    let plan = request::Expand::parse(&request).map_err(refused)?;
    // A raw block volume has no file system to grow.
    let Some(plan) = plan else { return Ok(csi::NodeExpandVolumeResponse { capacity_bytes: 0 }) };
    let (shared, wanted) = (Arc::clone(node), plan.clone());
    let work = move |waiters| async move {
        let work = move |disks: &_| {
            let ended = growth::run(disks, &wanted, &waiters);
            ended.map_err(NodeError::of(Rpc::NodeExpandVolume, &wanted.at.volume, &wanted.at.path))
        };
        shared.blocking(work).await
    };
    let key = Key::NodeGrowth(VolumeHandle::Volume(plan.at.volume.clone()));
    let size = node.operations.run(key, plan, Rpc::NodeExpandVolume.bound(), work).await?;
    Ok(csi::NodeExpandVolumeResponse { capacity_bytes: size.to_wire() })
}

/// Returns the error of a request that started no operation.
fn refused(error: RequestError) -> OperationError<NodeError> {
    OperationError::Failed(Arc::new(error.into()))
}

/// Returns the key of stage and unstage.
fn whole(volume: &VolumeId) -> Key {
    Key::NodeVolume(VolumeHandle::Volume(volume.clone()))
}

/// Returns the key of publish and unpublish. A volume may be published at several targets concurrently.
fn target(volume: &VolumeId, target: &WinPath) -> Key {
    Key::NodeTarget { volume: VolumeHandle::Volume(volume.clone()), target: key_of(target) }
}

//! The mutating node RPCs. Each parses its request, and runs its work as an operation that outlives the request.

use std::path::Path;
use std::sync::Arc;

use csi_proto::csi;
use ebs_mounter::{Attacher, NodePath};
use ebs_types::VolumeId;
use tokio::time::Instant;

use super::error::NodeError;
use super::place_error::PlaceError;
use super::request::{self, Handle, RequestError};
use super::{Inner, expand, owner, publish, stage, unmount};
use crate::operation::{Key, OperationError};
use crate::rpc::Rpc;

type Ended<T> = Result<T, OperationError<NodeError>>;

/// Stages a volume. The error has its own type because no code may be final while something is mounted at the staging
/// path.
pub(super) async fn stage(
    node: &Arc<Inner>,
    request: csi::NodeStageVolumeRequest,
) -> Result<csi::NodeStageVolumeResponse, OperationError<PlaceError>> {
    let options = &node.options;
    let plan = match request::Stage::parse(&request, &options.driver, options.legacy_xfs) {
        Ok(Some(plan)) => plan,
        // A raw block volume needs no staging.
        Ok(None) => return Ok(csi::NodeStageVolumeResponse {}),
        Err(error) => {
            let staging = NodePath::parse(&request.staging_target_path).ok();
            let error = PlaceError::of_stage(error.into(), staging.as_ref()).await;
            return Err(OperationError::Failed(Arc::new(error)));
        }
    };
    let key = Key::NodeVolume(plan.handle.clone());
    let (shared, wanted) = (Arc::clone(node), plan.clone());
    let work = move |waiters| async move {
        if let Err(cause) = Box::pin(stage::run(&shared, &wanted, &waiters)).await {
            let error = NodeError::of(Rpc::NodeStageVolume, &wanted.handle, &wanted.staging)(cause);
            return Err(PlaceError::of_stage(error, Some(&wanted.staging)).await);
        }
        register(&shared, (&wanted.handle, &wanted.volume), &wanted.staging, wanted.attachment.device.as_deref());
        Ok(())
    };
    node.operations.run(key, plan, Rpc::NodeStageVolume.bound(), work).await?;
    Ok(csi::NodeStageVolumeResponse {})
}

pub(super) async fn unstage(
    node: &Arc<Inner>,
    request: csi::NodeUnstageVolumeRequest,
) -> Ended<csi::NodeUnstageVolumeResponse> {
    let plan = request::Unmount::unstage(&request).map_err(refused)?;
    let key = Key::NodeVolume(plan.volume.clone());
    let (shared, wanted) = (Arc::clone(node), plan.clone());
    let work = move |waiters| async move {
        let ended = Box::pin(unmount::unstage(&shared, &wanted, &waiters)).await;
        ended.map_err(NodeError::of(Rpc::NodeUnstageVolume, &wanted.volume, &wanted.path))?;
        shared.mounter.unregister(&wanted.path);
        if let Handle::Volume(volume) = &wanted.volume {
            shared.mounter.forget_volume(volume);
        }
        Ok(())
    };
    let (start, bound) = (Instant::now(), Rpc::NodeUnstageVolume.bound());
    let in_the_way = [Key::NodeGrowth(plan.volume.clone()), key.clone()];
    if node.operations.running().iter().any(|held| in_the_way.contains(held)) {
        // An operation that hangs in the kernel until the thaw would never release the key. A thaw that has not
        // returned when the time is over continues.
        let _elapsed = tokio::time::timeout(bound, unmount::thaw_unused(node, &plan)).await;
    }
    node.operations.take_over(key, plan, bound.saturating_sub(start.elapsed()), work).await?;
    Ok(csi::NodeUnstageVolumeResponse {})
}

/// Publishes a volume. The error has its own type because no code may be final while the volume is mounted at the
/// target path.
pub(super) async fn publish(
    node: &Arc<Inner>,
    request: csi::NodePublishVolumeRequest,
) -> Result<csi::NodePublishVolumeResponse, OperationError<PlaceError>> {
    let plan = match request::Publish::parse(&request, &node.options.driver) {
        Ok(plan) => plan,
        Err(error) => {
            let target = NodePath::parse(&request.target_path).ok();
            let error = PlaceError::of_publish(node, error.into(), None, target.as_ref()).await;
            return Err(OperationError::Failed(Arc::new(error)));
        }
    };
    let key = target_key(&plan.handle, &plan.target);
    let (shared, wanted) = (Arc::clone(node), plan.clone());
    let work = move |waiters| async move {
        if let Err(cause) = Box::pin(publish::run(&shared, &wanted, &waiters)).await {
            let error = NodeError::of(Rpc::NodePublishVolume, &wanted.handle, &wanted.target)(cause);
            return Err(PlaceError::of_publish(&shared, error, Some(&wanted.handle), Some(&wanted.target)).await);
        }
        register(&shared, (&wanted.handle, &wanted.volume), &wanted.target, wanted.device.as_deref());
        Ok(())
    };
    node.operations.run(key, plan, Rpc::NodePublishVolume.bound(), work).await?;
    Ok(csi::NodePublishVolumeResponse {})
}

pub(super) async fn unpublish(
    node: &Arc<Inner>,
    request: csi::NodeUnpublishVolumeRequest,
) -> Ended<csi::NodeUnpublishVolumeResponse> {
    let plan = request::Unmount::unpublish(&request).map_err(refused)?;
    let key = target_key(&plan.volume, &plan.path);
    let (shared, wanted) = (Arc::clone(node), plan.clone());
    let work = move |waiters| async move {
        let ended = unmount::unpublish(&shared, &wanted, &waiters).await;
        ended.map_err(NodeError::of(Rpc::NodeUnpublishVolume, &wanted.volume, &wanted.path))?;
        shared.mounter.unregister(&wanted.path);
        Ok(())
    };
    node.operations.take_over(key, plan, Rpc::NodeUnpublishVolume.bound(), work).await?;
    Ok(csi::NodeUnpublishVolumeResponse {})
}

pub(super) async fn expand(
    node: &Arc<Inner>,
    request: csi::NodeExpandVolumeRequest,
) -> Ended<csi::NodeExpandVolumeResponse> {
    let plan = request::ExpandRequest::parse(&request).map_err(refused)?;
    if plan.is_block == Some(true) {
        // A raw device follows its volume, so nothing has to grow.
        return Ok(csi::NodeExpandVolumeResponse { capacity_bytes: 0 });
    }
    let key = Key::NodeGrowth(plan.handle.clone());
    let (shared, wanted) = (Arc::clone(node), plan.clone());
    let work = move |waiters| async move {
        let grow = async {
            let volume = owner::named(&shared.mounter, &wanted.handle, &wanted.path).await?;
            let plan = request::Expand { volume, path: wanted.path.clone(), required: wanted.required };
            expand::run(&shared, &plan, &waiters).await
        };
        Box::pin(grow).await.map_err(NodeError::of(Rpc::NodeExpandVolume, &wanted.handle, &wanted.path))
    };
    let size = node.operations.run(key, plan, Rpc::NodeExpandVolume.bound(), work).await?;
    Ok(csi::NodeExpandVolumeResponse { capacity_bytes: size.to_wire() })
}

/// Records a path of a volume in the register.
fn register(node: &Inner, (handle, volume): (&Handle, &VolumeId), at: &NodePath, device: Option<&Path>) {
    let attacher = match handle {
        Handle::Volume(_) => Attacher::Driver,
        Handle::NodeLocal(_) => Attacher::Other,
    };
    node.mounter.register(volume, attacher, at, device);
}

/// Wraps an error that refused a request before an operation started.
fn refused(error: RequestError) -> OperationError<NodeError> {
    OperationError::Failed(Arc::new(error.into()))
}

/// Returns the key of publish and unpublish. It contains the target because a volume may be published at several at
/// once.
fn target_key(volume: &Handle, target: &NodePath) -> Key {
    Key::NodeTarget { volume: volume.clone(), target: target.as_path().to_owned() }
}

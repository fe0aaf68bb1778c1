use std::sync::Arc;

use csi_proto::csi::{ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeResponse};
use ebs_cloud::Ec2;
use ebs_ec2::{NodeId, VolumeId};
use tonic::Status;

use super::codes::settled;
use super::handle::{is_node_local, require};
use super::{ControllerError, ControllerService, handle};
use crate::operation::Key;
use crate::rpc::Rpc;

pub(super) async fn run<E: Ec2>(
    service: &ControllerService<E>,
    request: ControllerUnpublishVolumeRequest,
) -> Result<ControllerUnpublishVolumeResponse, Status> {
    let Some((volume, node)) = attachment(&request)? else {
        tracing::info!(
            volume = request.volume_id,
            node = request.node_id,
            "skipping DetachVolume: EC2 cannot have an attachment with these ids"
        );
        return Ok(ControllerUnpublishVolumeResponse {});
    };
    let cloud = Arc::clone(&service.cloud);
    let key = Key::Attachment { volume: volume.clone(), node: node.clone() };
    let work = move |waiters| async move {
        settled(Rpc::ControllerUnpublishVolume, cloud.attachments.detach(&volume, &node, &waiters).await)
    };
    let bound = Rpc::ControllerUnpublishVolume.timeout();
    service.operations.run(key, (), bound, work).await?;
    Ok(ControllerUnpublishVolumeResponse {})
}

/// Returns the attachment to remove, or `None` for an impossible volume or node ID, because nothing can be attached.
fn attachment(request: &ControllerUnpublishVolumeRequest) -> Result<Option<(VolumeId, NodeId)>, ControllerError> {
    require(&request.volume_id, "volume_id")?;
    require(&request.node_id, "node_id (detaching from all nodes is not supported)")?;
    if is_node_local(&request.volume_id) {
        return Ok(None);
    }
    let both = handle::volume(&request.volume_id).and_then(|volume| Ok((volume, handle::node(&request.node_id)?)));
    match both {
        Err(ControllerError::NoSuchId { .. }) => Ok(None),
        other => other.map(Some),
    }
}

use std::sync::Arc;

use csi_proto::csi::{DeleteVolumeRequest, DeleteVolumeResponse};
use ebs_cloud::Ec2;
use ebs_ec2::VolumeId;
use tonic::Status;

use super::ControllerService;
use super::codes::settled;
use super::handle::{is_node_local, require};
use crate::operation::Key;
use crate::rpc::Rpc;

pub(super) async fn run<E: Ec2>(
    service: &ControllerService<E>,
    request: DeleteVolumeRequest,
) -> Result<DeleteVolumeResponse, Status> {
    require(&request.volume_id, "volume_id")?;
    if is_node_local(&request.volume_id) {
        tracing::info!(handle = request.volume_id, "skipping DeleteVolume: node-local volume");
        return Ok(DeleteVolumeResponse {});
    }
    let Ok(id) = VolumeId::from_handle(&request.volume_id) else {
        tracing::info!(handle = request.volume_id, "skipping DeleteVolume: the handle is not an EC2 volume id");
        return Ok(DeleteVolumeResponse {});
    };
    let cloud = Arc::clone(&service.cloud);
    let key = Key::Volume(id.clone());
    let work = move |waiters| async move { settled(Rpc::DeleteVolume, cloud.volumes.delete(&id, &waiters).await) };
    service.operations.run(key, (), Rpc::DeleteVolume.timeout(), work).await?;
    Ok(DeleteVolumeResponse {})
}

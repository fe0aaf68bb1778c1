//! ControllerExpandVolume (`controller.md` 11, C9, C10).

use std::sync::Arc;

use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use ebs_cloud::Ec2;
use ebs_types::{Gib, VolumeId};

use super::handle::{not_node_local, require};
use super::refusal::refused;
use super::{ControllerError, ControllerService, handle};
use crate::capacity;
use crate::operation::{Key, OperationError};
use crate::rpc::Rpc;

#[derive(Clone, PartialEq)]
struct Expand {
    size: Gib,
}

pub(super) async fn run<E: Ec2>(
    service: &ControllerService<E>,
    request: ControllerExpandVolumeRequest,
) -> Result<ControllerExpandVolumeResponse, OperationError<ControllerError>> {
    let (volume, size) = plan(&request).map_err(refused)?;
    let cloud = Arc::clone(&service.cloud);
    let key = Key::Volume(volume.clone());
    let work = move |waiters| async move {
        cloud.volumes.expand(&volume, size, &waiters).await.map_err(ControllerError::at(Rpc::ControllerExpandVolume))
    };
    let bound = Rpc::ControllerExpandVolume.bound();
    let size = service.operations.take_over(key, Expand { size }, bound, work).await?;
    let access = request.volume_capability.and_then(|c| c.access_type);
    Ok(ControllerExpandVolumeResponse {
        capacity_bytes: size.bytes().to_wire(),
        node_expansion_required: !matches!(access, Some(AccessType::Block(_))),
    })
}

fn plan(request: &ControllerExpandVolumeRequest) -> Result<(VolumeId, Gib), ControllerError> {
    require(&request.volume_id, "volume_id")?;
    not_node_local(&request.volume_id)?;
    let size = capacity::for_expansion(request.capacity_range.as_ref())?;
    Ok((handle::volume(&request.volume_id)?, size))
}

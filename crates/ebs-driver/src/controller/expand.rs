use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use ebs_cloud::{Ec2, ModifySpec};
use tonic::Status;

use super::handle::{not_node_local, require};
use super::modification::{self, Change};
use super::{ControllerError, ControllerService, handle};
use crate::capacity;
use crate::rpc::Rpc;

pub(super) async fn run<E: Ec2>(
    service: &ControllerService<E>,
    request: ControllerExpandVolumeRequest,
) -> Result<ControllerExpandVolumeResponse, Status> {
    require(&request.volume_id, "volume_id")?;
    not_node_local(&request.volume_id)?;
    let size = capacity::for_expansion(request.capacity_range.as_ref()).map_err(ControllerError::from)?;
    let volume = handle::volume(&request.volume_id)?;
    let change = Change { rpc: Rpc::ControllerExpandVolume, spec: ModifySpec::size(size) };
    let size = modification::run(service, volume, change).await?;
    let access = request.volume_capability.and_then(|c| c.access_type);
    Ok(ControllerExpandVolumeResponse {
        capacity_bytes: size.bytes().to_wire(),
        node_expansion_required: !matches!(access, Some(AccessType::Block(_))),
    })
}

use std::collections::HashMap;

use csi_proto::csi::{ControllerModifyVolumeRequest, ControllerModifyVolumeResponse};
use csi_proto::modify::{ModifyVolumePropertiesRequest, ModifyVolumePropertiesResponse};
use ebs_cloud::{Ec2, ModifySpec};
use ebs_ec2::VolumeId;
use tonic::Status;

use super::handle::{not_node_local, require};
use super::modification::{self, Change};
use super::{ControllerError, ControllerOptions, ControllerService, handle};
use crate::parameters::MutableParameters;
use crate::rpc::Rpc;

pub(super) async fn run<E: Ec2>(
    service: &ControllerService<E>,
    request: ControllerModifyVolumeRequest,
) -> Result<ControllerModifyVolumeResponse, Status> {
    require(&request.volume_id, "volume_id")?;
    let (volume, spec) = plan(&request.volume_id, &request.mutable_parameters, &service.options)?;
    modification::run(service, volume, Change { rpc: Rpc::ControllerModifyVolume, spec }).await?;
    Ok(ControllerModifyVolumeResponse {})
}

/// Modifies a volume for the volume modifier, which sends the annotations of the claim as parameters.
pub(super) async fn run_properties<E: Ec2>(
    service: &ControllerService<E>,
    request: ModifyVolumePropertiesRequest,
) -> Result<ModifyVolumePropertiesResponse, Status> {
    require(&request.name, "name")?;
    let (volume, spec) = plan(&request.name, &request.parameters, &service.options)?;
    modification::run(service, volume, Change { rpc: Rpc::ModifyVolumeProperties, spec }).await?;
    Ok(ModifyVolumePropertiesResponse {})
}

fn plan(
    volume_handle: &str,
    parameters: &HashMap<String, String>,
    options: &ControllerOptions,
) -> Result<(VolumeId, ModifySpec), ControllerError> {
    not_node_local(volume_handle)?;
    let mutable = MutableParameters::parse(parameters)?;
    let properties = mutable.properties()?;
    let (tags, deleted_tags) = options.tags.of_modification(&mutable)?;
    Ok((handle::volume(volume_handle)?, ModifySpec { tags, deleted_tags, ..properties }))
}

use csi_proto::csi::validate_volume_capabilities_response::Confirmed;
use csi_proto::csi::{ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse};
use ebs_cloud::Ec2;

use super::handle::require;
use super::{ControllerError, ControllerService, handle};
use crate::capability::{self, CapabilityError};
use crate::rpc::Rpc;
use crate::status::chain;

pub(super) async fn run<E: Ec2>(
    service: &ControllerService<E>,
    request: ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolumeCapabilitiesResponse, ControllerError> {
    require(&request.volume_id, "volume_id")?;
    if request.volume_capabilities.is_empty() {
        return Err(CapabilityError::Missing.into());
    }
    let wanted = &request.volume_capabilities;
    let mountable = capability::check_mounts(wanted, None);
    let possible = if handle::node_local_device(&request.volume_id, &service.options)?.is_some() {
        // The request names no node, and each node has its own volume, so only the capabilities can be checked.
        wanted.iter().try_for_each(|wanted| capability::of_node_local(wanted).map(drop))
    } else {
        let volume = handle::volume(&request.volume_id)?;
        service.cloud.volumes.get(&volume).await.map_err(ControllerError::during(Rpc::ValidateVolumeCapabilities))?;
        capability::parse_all(wanted).map(drop)
    };
    Ok(match possible.and(mountable) {
        Ok(()) => ValidateVolumeCapabilitiesResponse {
            confirmed: Some(Confirmed { volume_capabilities: request.volume_capabilities, ..Confirmed::default() }),
            message: String::new(),
        },
        Err(error) => ValidateVolumeCapabilitiesResponse { confirmed: None, message: chain(&error) },
    })
}

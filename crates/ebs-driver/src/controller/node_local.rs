//! Publishes a node-local volume: asks EC2 which volume is at the device, and runs no operation.

use csi_proto::csi::{ControllerPublishVolumeRequest, ControllerPublishVolumeResponse};
use ebs_cloud::Ec2;
use ebs_ec2::{DeviceName, InstanceId, NodeId};

use super::handle::require;
use super::{ControllerError, ControllerService, handle};
use crate::capability::{self, CapabilityError};
use crate::context::PublishContext;
use crate::rpc::Rpc;

pub(super) async fn publish<E: Ec2>(
    service: &ControllerService<E>,
    request: &ControllerPublishVolumeRequest,
    device: DeviceName,
) -> Result<ControllerPublishVolumeResponse, ControllerError> {
    let node = node(request)?;
    let found = service.cloud.attachments.volume_at(&node, &device).await;
    let volume = found.map_err(ControllerError::during(Rpc::ControllerPublishVolume))?;
    let device = Some(device.as_str().into());
    let context = PublishContext { device, local_volume: Some(volume), ..PublishContext::default() };
    let mut publish_context = context.to_map(&service.options.driver);
    if request.readonly {
        PublishContext::set_read_only(&mut publish_context, &service.options.driver);
    }
    Ok(ControllerPublishVolumeResponse { publish_context })
}

fn node(request: &ControllerPublishVolumeRequest) -> Result<InstanceId, ControllerError> {
    require(&request.node_id, "node_id")?;
    let capability = request.volume_capability.as_ref().ok_or(CapabilityError::Missing)?;
    capability::check_file_system(capability)?;
    capability::log_without_effect(std::slice::from_ref(capability));
    capability::of_node_local(capability)?;
    log_read_only(request);
    match handle::node(&request.node_id)? {
        NodeId::Instance(id) => Ok(id),
        NodeId::HyperPod(node) => {
            Err(ControllerError::NodeLocalOnHyperPod { handle: request.volume_id.clone(), node: node.to_string() })
        }
    }
}

/// Logs a readonly flag. An orchestrator may set it although the driver does not advertise PUBLISH_READONLY.
pub(super) fn log_read_only(request: &ControllerPublishVolumeRequest) {
    if request.readonly {
        tracing::info!(
            volume = request.volume_id,
            "ignoring readonly for the attachment: the node mounts the volume read-only"
        );
    }
}

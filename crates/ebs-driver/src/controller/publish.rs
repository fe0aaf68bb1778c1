use std::sync::Arc;

use csi_proto::csi::{ControllerPublishVolumeRequest, ControllerPublishVolumeResponse};
use ebs_cloud::{Attached, Cloud, Ec2};
use ebs_ec2::{NodeId, VolumeId, Waiters};
use tonic::Status;

use super::handle::require;
use super::{ControllerError, ControllerService, handle, node_local};
use crate::capability::{self, Capability, CapabilityError};
use crate::context::{PublishContext, VolumeContext, VolumeOrigin};
use crate::operation::Key;
use crate::rpc::Rpc;

#[derive(Debug, Clone, PartialEq)]
struct Publish {
    volume: VolumeId,
    node: NodeId,
    capability: Capability,
    only_initialized: bool,
    read_only: bool,
}

pub(super) async fn run<E: Ec2>(
    service: &ControllerService<E>,
    request: ControllerPublishVolumeRequest,
) -> Result<ControllerPublishVolumeResponse, Status> {
    let local = handle::node_local_device(&request.volume_id, &service.options)?;
    if let Some(device) = local {
        return Ok(node_local::publish(service, &request, device).await?);
    }
    let plan = plan(&request)?;
    let cloud = Arc::clone(&service.cloud);
    let key = Key::Attachment { volume: plan.volume.clone(), node: plan.node.clone() };
    let work = {
        let plan = plan.clone();
        move |waiters| async move { attach(&cloud, &plan, &waiters).await }
    };
    let bound = Rpc::ControllerPublishVolume.timeout();
    let read_only = plan.read_only;
    let attached = service.operations.run(key, plan, bound, work).await?;
    let mut publish_context = publish_context(&attached).to_map(&service.options.driver);
    if read_only {
        PublishContext::set_read_only(&mut publish_context, &service.options.driver);
    }
    Ok(ControllerPublishVolumeResponse { publish_context })
}

fn plan(request: &ControllerPublishVolumeRequest) -> Result<Publish, ControllerError> {
    require(&request.volume_id, "volume_id")?;
    require(&request.node_id, "node_id")?;
    let capability = request.volume_capability.as_ref().ok_or(CapabilityError::Missing)?;
    capability::check_file_system(capability)?;
    capability::log_without_effect(std::slice::from_ref(capability));
    let capability = Capability::try_from(capability)?;
    node_local::log_read_only(request);
    let only_initialized = VolumeContext::attach_when_initialized(&request.volume_context);
    let (volume, node) = (handle::volume(&request.volume_id)?, handle::node(&request.node_id)?);
    Ok(Publish { volume, node, capability, only_initialized, read_only: request.readonly })
}

async fn attach<E: Ec2>(cloud: &Cloud<E>, plan: &Publish, waiters: &Waiters) -> Result<Attached, ControllerError> {
    if plan.capability.multi_node {
        refuse_single_attach(cloud, plan).await?;
    }
    if plan.only_initialized {
        // Wait before attaching, so that the driver never has to detach a volume that is not yet usable.
        cloud
            .volumes
            .await_initialized(&plan.volume, waiters)
            .await
            .map_err(ControllerError::during(Rpc::ControllerPublishVolume))?;
    }
    cloud
        .attachments
        .attach(&plan.volume, &plan.node, waiters)
        .await
        .map_err(ControllerError::during(Rpc::ControllerPublishVolume))
}

/// Refuses to publish for several nodes a volume that was created for a single node.
async fn refuse_single_attach<E: Ec2>(cloud: &Cloud<E>, plan: &Publish) -> Result<(), ControllerError> {
    let volume = match cloud.volumes.get(&plan.volume).await {
        Ok(volume) => volume,
        // EC2 may not list a new volume yet. The attach call then checks that the volume exists.
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(ControllerError::during(Rpc::ControllerPublishVolume)(error)),
    };
    if volume.multi_attach != Some(false) {
        return Ok(());
    }
    let published = volume.attachments.iter().any(|a| match &plan.node {
        NodeId::Instance(id) => a.instance.as_ref() == Some(id),
        NodeId::HyperPod(node) => a.cluster_node().as_ref() == Some(node.instance()),
    });
    let why = if published {
        "it is already published to this node as a single-node volume"
    } else {
        "use SINGLE_NODE_WRITER, or create it as io2 with MULTI_NODE_MULTI_WRITER"
    };
    Err(ControllerError::NotMultiAttach { volume: plan.volume.to_string(), why, published })
}

/// Returns the data with which the node finds the right device and decides whether the device may be blank.
fn publish_context(attached: &Attached) -> PublishContext {
    let volume = &attached.volume;
    let origin = match (&volume.source_volume, &volume.snapshot) {
        (Some(_), _) => VolumeOrigin::Clone,
        (None, Some(_)) => VolumeOrigin::Snapshot,
        (None, None) => VolumeOrigin::Blank,
    };
    PublishContext {
        device: Some(attached.device.as_str().into()),
        local_volume: None,
        origin: Some(origin),
        size: Some(volume.size),
        attach_time: attached.attach_time,
    }
}

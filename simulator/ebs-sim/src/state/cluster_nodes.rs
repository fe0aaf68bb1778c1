//! Volumes of SageMaker HyperPod nodes. The nodes belong to SageMaker, so EC2 shows no instance for them. It shows only
//! that the volume is attached.

use std::time::SystemTime;

use crate::api::{ClusterNodeVolume, Fault, Reply};

use super::attachments::attachments_of;
use super::faults::incorrect_state;
use super::ids::Kind;
use super::model::Sim;
use super::model::{Attachment, AttachmentPhase, VolumePhase};
use super::volumes::volume_mut;

const MAX_VOLUMES: usize = 27;

pub(super) fn attach_node_volume(sim: &mut Sim, now: SystemTime, call: &ClusterNodeVolume) -> Result<Reply, Fault> {
    let resource = check_node(call)?;
    let due = sim.times.due(now, sim.times.attach, Some(&call.volume_id));
    let device = free_node_device(sim, &call.node_id)
        .ok_or_else(|| refused(&Fault::new("AttachmentLimitExceeded", "Volume attachment limit exceeded")))?;
    let volume = volume_mut(sim, &call.volume_id).map_err(|fault| refused(&fault))?;
    if volume.phase != VolumePhase::Ready {
        return Err(refused(&incorrect_state(format!("Volume '{}' is '{}'.", volume.id, volume.state()))));
    }
    if !volume.attachments.is_empty() && !volume.multi_attach {
        let message = format!("{} is already attached to an instance", volume.id);
        return Err(refused(&Fault::new("VolumeInUse", message)));
    }
    if volume.attachments.iter().any(|a| a.instance_id == call.node_id) {
        let message = format!("{} is already attached to {}", volume.id, call.node_id);
        return Err(refused(&Fault::new("VolumeInUse", message)));
    }
    let attachment = Attachment {
        instance_id: call.node_id.clone(),
        device,
        associated_resource: Some(resource),
        ..Attachment::elsewhere(now, due)
    };
    let reply = attachment.describe(&volume.id);
    volume.attachments.push(attachment);
    sim.touch();
    Ok(Reply::AttachClusterNodeVolume(reply))
}

pub(super) fn detach_node_volume(sim: &mut Sim, now: SystemTime, call: &ClusterNodeVolume) -> Result<Reply, Fault> {
    check_node(call)?;
    let due = sim.times.due(now, sim.times.detach, Some(&call.volume_id));
    let volume = volume_mut(sim, &call.volume_id).map_err(|fault| refused(&fault))?;
    let id = volume.id.clone();
    let state = volume.state();
    let idle = volume.attachments.is_empty();
    let Some(attachment) = volume.attachment_to(&call.node_id).filter(|a| a.associated_resource.is_some()) else {
        return Err(refused(&if idle {
            incorrect_state(format!("Volume '{id}' is in the '{state}' state."))
        } else {
            let message = format!("Volume '{id}' is not attached to '{}'.", call.node_id);
            Fault::new("InvalidAttachment.NotFound", message)
        }));
    };
    if let AttachmentPhase::Detaching { .. } = attachment.phase {
        return Err(refused(&incorrect_state(format!("Volume '{id}' is in the 'detaching' state."))));
    }
    attachment.phase = AttachmentPhase::Detaching { due, busy: false };
    let reply = attachment.describe(&id);
    sim.touch();
    Ok(Reply::DetachClusterNodeVolume(reply))
}

/// Returns a free device name. SageMaker, not the caller, chooses the name.
fn free_node_device(sim: &Sim, node: &str) -> Option<String> {
    let used: Vec<&str> = attachments_of(sim, node).map(|(_, a)| a.device.as_str()).collect();
    if used.len() >= MAX_VOLUMES {
        return None;
    }
    // SageMaker's API model allows these names.
    let names = ["/dev/xvd", "/dev/sd"].into_iter().flat_map(|stem| ('b'..='z').map(move |c| format!("{stem}{c}")));
    names.into_iter().find(|name| !used.contains(&name.as_str()))
}

/// Checks the node, and returns its resource name as EC2 shows it: the ARN of the cluster, a dash, and the instance id.
fn check_node(call: &ClusterNodeVolume) -> Result<String, Fault> {
    let arn: Vec<&str> = call.cluster_arn.split(':').collect();
    let named = arn.len() == 6 && arn[0] == "arn" && arn[2] == "sagemaker" && arn[5].starts_with("cluster/");
    if !named {
        return Err(Fault::new("ValidationException", format!("'{}' is not the ARN of a cluster.", call.cluster_arn)));
    }
    if Kind::Instance.check(&call.node_id).is_err() {
        return Err(Fault::new("ValidationException", format!("'{}' is not a node id.", call.node_id)));
    }
    Ok(format!("{}-{}", call.cluster_arn, call.node_id))
}

/// Returns SageMaker's error for an EC2 error.
fn refused(fault: &Fault) -> Fault {
    let Fault { code, message, .. } = fault;
    Fault::new("ValidationException", format!("HyperPod - Ec2ErrCode: {code} : Ec2ErrMsg: {message}"))
}

//! Attachments of volumes to nodes.

mod attach;
mod attach_call;
mod await_modified;
mod believe;
mod detach;
mod detach_call;
mod device_name;
mod instance_cache;
mod memory;
mod node_attachment;
mod pending_detaches;

use std::sync::Arc;

use ebs_ec2::{AttachmentState, DeviceName, Ec2, InstanceId, NodeId, VolumeId, Waiters};

use crate::context::Context;
use crate::op_context::OpContext;
use crate::{Attached, CloudErrorKind, Object, Result, Sidecar, timeouts};
use device_name::DeviceNames;
use instance_cache::{EbsCardCounts, InstanceCache};
use memory::{Pair, PairMemory};
pub use pending_detaches::PendingDetach;
use pending_detaches::PendingDetaches;

/// Attaches and detaches volumes, and remembers what EC2 has shown of each attachment.
#[derive(Debug)]
pub struct AttachmentService<E> {
    context: Arc<Context<E>>,
    pairs: PairMemory,
    devices: DeviceNames,
    instances: InstanceCache<E>,
    card_counts: EbsCardCounts<E>,
    pending_detaches: PendingDetaches,
}

struct PairOperation<'a, E> {
    service: &'a AttachmentService<E>,
    op: &'a OpContext<'a>,
    pair: &'a Pair,
}

impl<E: Ec2> AttachmentService<E> {
    pub(crate) fn new(context: Arc<Context<E>>) -> Self {
        Self {
            pairs: PairMemory::default(),
            devices: DeviceNames::default(),
            instances: InstanceCache::new(Arc::clone(&context)),
            card_counts: EbsCardCounts::new(Arc::clone(&context.ec2)),
            pending_detaches: PendingDetaches::default(),
            context,
        }
    }

    /// Attaches the volume to the node and waits until EC2 proves the attachment.
    pub async fn attach(&self, volume: &VolumeId, node: &NodeId, waiters: &Waiters) -> Result<Attached> {
        let pair = &Pair { volume: volume.clone(), node: node.clone() };
        let op = &OpContext::start(format!("attach {volume} to {node}"), timeouts::ATTACH, waiters);
        let on = PairOperation { service: self, op, pair };
        self.context.recent.leases.serve(&[Sidecar::Attacher], waiters, attach::attach(&on)).await
    }

    /// Detaches the volume from the node and waits until EC2 proves that it is detached. Never forces the detach.
    pub async fn detach(&self, volume: &VolumeId, node: &NodeId, waiters: &Waiters) -> Result<()> {
        let pair = &Pair { volume: volume.clone(), node: node.clone() };
        let op = &OpContext::start(format!("detach {volume} from {node}"), timeouts::DETACH, waiters);
        let on = PairOperation { service: self, op, pair };
        self.context.recent.leases.serve(&[Sidecar::Attacher], waiters, detach::detach(&on)).await
    }

    /// Returns the volume that EC2 lists as attached to the instance at the device. Rejects the root device.
    pub async fn volume_at(&self, instance: &InstanceId, device: &DeviceName) -> Result<VolumeId> {
        let found = self.context.describer.instance(None, instance).await?;
        if found.root_device.as_ref() == Some(device) {
            let message =
                format!("{device} is the root device of instance {instance}; use the device of a data volume");
            return Err(CloudErrorKind::InvalidArgument.error(message));
        }
        let entry = found.devices.into_iter().find(|entry| entry.device == *device);
        let (volume, state) = entry.and_then(|entry| Some((entry.volume?, entry.state))).ok_or_else(|| {
            let message =
                format!("instance {instance} has no EBS volume at {device}; attach one or correct the volume handle");
            CloudErrorKind::NotFound(Object::Instance(instance.clone())).error(message)
        })?;
        if state != Some(AttachmentState::Attached) {
            let message =
                format!("{volume} at {device} of instance {instance} is not in state attached; wait until it is");
            return Err(CloudErrorKind::FailedPrecondition.error(message));
        }
        Ok(volume)
    }

    /// Returns the detaches that clients requested and that are still in progress.
    pub fn pending_detaches(&self) -> Vec<PendingDetach> {
        self.pending_detaches.all()
    }
}

//! Finds node-local volumes, which are already attached to the instance.

use ebs_ec2::{AttachmentState, Ec2};
use ebs_types::{DeviceName, InstanceId, VolumeId};

use super::service::AttachmentService;
use crate::{CloudError, CloudErrorKind, Object};

impl<E: Ec2> AttachmentService<E> {
    /// Returns the volume that EC2 lists as attached to the instance at the device.
    ///
    /// # Errors
    /// `CloudErrorKind::NotFound` without such an instance or such a mapping. `CloudErrorKind::InvalidArgument` for the
    /// root device. `CloudErrorKind::FailedPrecondition` while the volume is attaching or detaching.
    pub async fn volume_at(&self, instance: &InstanceId, device: &DeviceName) -> Result<VolumeId, CloudError> {
        let found = self.context.lookups.instance(None, instance).await?;
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
}

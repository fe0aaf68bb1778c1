//! The port's attachments: one method, one call.

use ebs_ec2::{Action, AttachRequest, Attachment, Attachments, DetachRequest, Result};

use ebs_types::{InstanceId, VolumeId};

use crate::AwsEc2;
use crate::call_monitor::CallMonitor;
use crate::convert::attachment::attachment;
use crate::convert::{Read, about, required};
use crate::query::number;

impl Attachments for AwsEc2 {
    async fn attach_volume(&self, request: &AttachRequest) -> Result<Attachment> {
        let monitor = self.monitor(Action::AttachVolume);
        let operation = self
            .client
            .attach_volume()
            .volume_id(request.volume.as_str())
            .instance_id(request.instance.as_str())
            .device(request.device.as_str())
            .set_ebs_card_index(request.card.map(number))
            .customize();
        let send = monitor.once(operation).send();
        let watch = monitor.clone();
        let read = |reply| between(dated(attachment(reply)?, &watch), &request.volume, &request.instance);
        self.call(monitor, send, read).await
    }

    async fn detach_volume(&self, request: &DetachRequest) -> Result<Attachment> {
        let monitor = self.monitor(Action::DetachVolume);
        let operation = self
            .client
            .detach_volume()
            .volume_id(request.volume.as_str())
            .instance_id(request.instance.as_str())
            .customize();
        let send = monitor.once(operation).send();
        let watch = monitor.clone();
        let read = |reply| between(dated(attachment(reply)?, &watch), &request.volume, &request.instance);
        self.call(monitor, send, read).await
    }
}

/// With the time of day of the reply.
pub(crate) fn dated(attachment: Attachment, monitor: &CallMonitor) -> Attachment {
    Attachment { said_at: monitor.date(), ..attachment }
}

/// The attachment must be the one that was asked for.
fn between(attachment: Attachment, volume: &VolumeId, instance: &InstanceId) -> Read<Attachment> {
    about(&attachment.volume, volume)?;
    about(required(attachment.instance.as_ref(), "instance of the attachment")?, instance)?;
    Ok(attachment)
}

//! The port's attachments: one method, one call.

use ebs_ec2::{Action, AttachRequest, Attachment, Attachments, DetachRequest, Result};

use crate::AwsEc2;
use crate::call::Sent;
use crate::convert::attachment::attachment;
use crate::query::number;

impl Attachments for AwsEc2 {
    async fn attach_volume(&self, request: &AttachRequest) -> Result<Attachment> {
        let sent = Sent::of(Action::AttachVolume);
        let operation = self
            .client
            .attach_volume()
            .volume_id(request.volume.as_str())
            .instance_id(request.instance.as_str())
            .device(request.device.as_str())
            .set_ebs_card_index(request.card.map(number))
            .customize();
        let send = sent.once(operation).send();
        self.call(sent, send, attachment).await
    }

    async fn detach_volume(&self, request: &DetachRequest) -> Result<Attachment> {
        let sent = Sent::of(Action::DetachVolume);
        let operation = self
            .client
            .detach_volume()
            .volume_id(request.volume.as_str())
            .instance_id(request.instance.as_str())
            .customize();
        let send = sent.once(operation).send();
        self.call(sent, send, attachment).await
    }
}

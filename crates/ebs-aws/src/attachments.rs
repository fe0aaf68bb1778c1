//! The port's calls about attachments. Each method makes one call.

use ebs_ec2::{Action, AttachRequest, Attachment, Attachments, DetachRequest, InstanceId, Result, VolumeId};

use crate::AwsEc2;
use crate::convert::attachment::attachment;
use crate::convert::{about, required};
use crate::query::Query;

impl Attachments for AwsEc2 {
    async fn attach_volume(&self, request: &AttachRequest) -> Result<Attachment> {
        let query = Query::new(Action::AttachVolume)
            .with("VolumeId", &request.volume)
            .with("InstanceId", &request.instance)
            .with("Device", request.device.as_str())
            .number("EbsCardIndex", request.card);
        self.attachment(query, &request.volume, &request.instance).await
    }

    async fn detach_volume(&self, request: &DetachRequest) -> Result<Attachment> {
        let query =
            Query::new(Action::DetachVolume).with("VolumeId", &request.volume).with("InstanceId", &request.instance);
        self.attachment(query, &request.volume, &request.instance).await
    }
}

impl AwsEc2 {
    /// Sends AttachVolume or DetachVolume and checks that its reply is about the volume and the instance.
    async fn attachment(&self, query: Query, volume: &VolumeId, instance: &InstanceId) -> Result<Attachment> {
        self.ask(query, attachment, |attachment, said_at| {
            about(&attachment.volume, volume)?;
            about(required(attachment.instance.as_ref(), "instance of the attachment")?, instance)?;
            Ok(Attachment { said_at, ..attachment })
        })
        .await
    }
}

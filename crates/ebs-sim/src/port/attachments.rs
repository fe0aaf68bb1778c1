//! Attachments through the port.

use ebs_ec2::{AttachRequest, Attachment, Attachments, DetachRequest, Result};

use crate::api::{self, SimAttachment};

use super::{SimEc2, call, convert};

impl Attachments for SimEc2 {
    async fn attach_volume(&self, request: &AttachRequest) -> Result<Attachment> {
        let attach = api::AttachVolume {
            volume_id: request.volume.to_string(),
            instance_id: request.instance.to_string(),
            device: Some(request.device.to_string()),
            ebs_card_index: request.card.map(i64::from),
            dry_run: false,
        };
        call!(self, AttachVolume, attach).map(|attachment| self.dated(attachment))
    }

    async fn detach_volume(&self, request: &DetachRequest) -> Result<Attachment> {
        let detach = api::DetachVolume {
            volume_id: request.volume.to_string(),
            instance_id: Some(request.instance.to_string()),
            ..Default::default()
        };
        call!(self, DetachVolume, detach).map(|attachment| self.dated(attachment))
    }
}

impl SimEc2 {
    fn dated(&self, attachment: SimAttachment) -> Attachment {
        Attachment { said_at: Some(self.date()), ..convert::attachment(attachment) }
    }
}

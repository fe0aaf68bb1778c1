//! Attachments through the port.

use ebs_ec2::{Action, AttachRequest, Attachment, Attachments, DetachRequest, Result};

use crate::api::{self, Call, Reply, SimAttachment};

use super::{SimEc2, convert, unexpected};

impl Attachments for SimEc2 {
    async fn attach_volume(&self, request: &AttachRequest) -> Result<Attachment> {
        let call = api::AttachVolume {
            volume_id: request.volume.to_string(),
            instance_id: request.instance.to_string(),
            device: Some(request.device.to_string()),
            ebs_card_index: request.card.map(i64::from),
            dry_run: false,
        };
        match self.make(Action::AttachVolume, Call::AttachVolume(call)).await? {
            Reply::AttachVolume(attachment) => Ok(self.dated(attachment)),
            other => Err(unexpected(Action::AttachVolume, &other)),
        }
    }

    async fn detach_volume(&self, request: &DetachRequest) -> Result<Attachment> {
        let call = api::DetachVolume {
            volume_id: request.volume.to_string(),
            instance_id: Some(request.instance.to_string()),
            device: None,
            force: false,
            dry_run: false,
        };
        match self.make(Action::DetachVolume, Call::DetachVolume(call)).await? {
            Reply::DetachVolume(attachment) => Ok(self.dated(attachment)),
            other => Err(unexpected(Action::DetachVolume, &other)),
        }
    }
}

impl SimEc2 {
    fn dated(&self, attachment: SimAttachment) -> Attachment {
        Attachment { said_at: Some(self.date()), ..convert::attachment(attachment) }
    }
}

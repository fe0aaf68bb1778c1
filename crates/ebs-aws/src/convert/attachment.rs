//! Attachments.

use ebs_ec2::{Attachment, AttachmentState, DeviceName, InstanceId, VolumeId};

use super::{optional_number, required_id, required_word};
use crate::reply::{Element, Read};

/// Reads an attachment from the reply of AttachVolume or DetachVolume, or from a volume's list.
pub(crate) fn attachment(element: Element<'_>) -> Read<Attachment> {
    let instance = element.word("instanceId")?;
    Ok(Attachment {
        volume: required_id(element, "volumeId", "volume id of an attachment", VolumeId::parse)?,
        // If another service attached the volume to its own resource, this is not an instance id.
        instance: instance.and_then(|id| InstanceId::parse(&id).ok()),
        associated_resource: element.word("associatedResource")?,
        device: element.word("device")?.map(DeviceName::new),
        state: state(required_word(element, "status", "state of an attachment")?),
        card: optional_number(element, "ebsCardIndex", "EBS card of an attachment")?,
        attach_time: element.time("attachTime")?,
        said_at: None,
    })
}

/// Parses an attachment's state. The block-device mappings of instances have the same states, except `busy`.
pub(crate) fn state(word: String) -> AttachmentState {
    match word.as_str() {
        "attaching" => AttachmentState::Attaching,
        "attached" => AttachmentState::Attached,
        "detaching" => AttachmentState::Detaching,
        "detached" => AttachmentState::Detached,
        "busy" => AttachmentState::Busy,
        _ => AttachmentState::Other(word),
    }
}

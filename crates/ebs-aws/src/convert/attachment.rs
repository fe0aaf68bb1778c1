//! Attachments.

use ebs_ec2::{Attachment, AttachmentState};
use ebs_types::{DeviceName, InstanceId, VolumeId};

use super::{optional_number, required_id, required_word};
use crate::reply::{Element, Read};

/// An attachment: AttachVolume's and DetachVolume's replies, and the items of a volume's list.
pub(crate) fn attachment(element: Element<'_>) -> Read<Attachment> {
    let instance = element.word("instanceId")?;
    Ok(Attachment {
        volume: required_id(element, "volumeId", "volume id of an attachment", VolumeId::parse)?,
        // Not an id of an instance: attached by another service, to something of its own.
        instance: instance.and_then(|id| InstanceId::parse(&id).ok()),
        associated_resource: element.word("associatedResource")?,
        device: element.word("device")?.map(DeviceName::new),
        state: state(required_word(element, "status", "state of an attachment")?),
        card: optional_number(element, "ebsCardIndex", "EBS card of an attachment")?,
        attach_time: element.time("attachTime")?,
        said_at: None,
    })
}

/// A state of an attachment; instances have it in their block-device mappings, without `busy`.
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

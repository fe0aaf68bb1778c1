//! Attachments.

use aws_sdk_ec2::operation::attach_volume::AttachVolumeOutput;
use aws_sdk_ec2::operation::detach_volume::DetachVolumeOutput;
use aws_sdk_ec2::types::{AttachmentStatus, VolumeAttachment, VolumeAttachmentState};
use ebs_ec2::{Attachment, AttachmentState};
use ebs_types::{DeviceName, InstanceId, VolumeId};

use super::{Incomplete, optional_number, required, required_id, text, time};

/// The SDK has three types with the same fields for one thing.
macro_rules! from_sdk {
    ($sdk:ty) => {
        impl TryFrom<$sdk> for Read {
            type Error = Incomplete;

            fn try_from(sdk: $sdk) -> Result<Self, Incomplete> {
                Ok(Self(Attachment {
                    volume: required_id(sdk.volume_id.as_deref(), "volume id of an attachment", VolumeId::parse)?,
                    // Not an id of an instance: attached by another service, to something of its own.
                    instance: sdk.instance_id.as_deref().and_then(|id| InstanceId::parse(id).ok()),
                    associated_resource: text(sdk.associated_resource),
                    device: text(sdk.device).map(DeviceName::new),
                    state: state(required(sdk.state, "state of an attachment")?),
                    card: optional_number(sdk.ebs_card_index, "EBS card of an attachment")?,
                    attach_time: time(sdk.attach_time),
                    said_at: None,
                }))
            }
        }
    };
}

/// An attachment that has been read; a type of this crate, so that conversions can be written for it.
pub(crate) struct Read(Attachment);

from_sdk!(VolumeAttachment);
from_sdk!(AttachVolumeOutput);
from_sdk!(DetachVolumeOutput);

/// The attachment in a reply.
pub(crate) fn attachment<T>(sdk: T) -> Result<Attachment, Incomplete>
where
    Read: TryFrom<T, Error = Incomplete>,
{
    Read::try_from(sdk).map(|read| read.0)
}

fn state(sdk: VolumeAttachmentState) -> AttachmentState {
    match sdk {
        VolumeAttachmentState::Attaching => AttachmentState::Attaching,
        VolumeAttachmentState::Attached => AttachmentState::Attached,
        VolumeAttachmentState::Detaching => AttachmentState::Detaching,
        VolumeAttachmentState::Detached => AttachmentState::Detached,
        VolumeAttachmentState::Busy => AttachmentState::Busy,
        other => AttachmentState::Other(other.as_str().to_owned()),
    }
}

/// The state of a volume in an instance's block-device mapping; the SDK has a type of its own for it, without `busy`.
pub(crate) fn mapped_state(sdk: &AttachmentStatus) -> AttachmentState {
    state(VolumeAttachmentState::from(sdk.as_str()))
}

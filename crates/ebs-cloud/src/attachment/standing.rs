//! How a volume stands towards an instance, by what EC2 lists.

use ebs_ec2::{Attachment, AttachmentState, Volume};
use ebs_types::InstanceId;

/// How a volume stands towards one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Attached to it.
    Attached(Attachment),
    /// On its way to it, or in a state that this version does not know.
    Arriving(Attachment),
    /// On its way from it.
    Leaving(Attachment),
    /// Nothing is listed for it.
    Absent,
}

/// What EC2 lists for the instance; of several entries the last counts.
pub(crate) fn standing(volume: &Volume, instance: &InstanceId) -> Standing {
    let here = volume.attachments.iter().rfind(|a| a.instance.as_ref() == Some(instance) && is_live(a));
    let Some(here) = here.cloned() else { return Standing::Absent };
    match here.state {
        AttachmentState::Attached => Standing::Attached(here),
        AttachmentState::Attaching | AttachmentState::Other(_) => Standing::Arriving(here),
        AttachmentState::Detaching | AttachmentState::Busy | AttachmentState::Detached => Standing::Leaving(here),
    }
}

/// What keeps a volume that only one instance may have from this one.
pub(crate) fn elsewhere<'a>(volume: &'a Volume, instance: &InstanceId) -> Option<&'a Attachment> {
    if volume.multi_attach == Some(true) {
        return None;
    }
    volume.attachments.iter().find(|a| a.instance.as_ref() != Some(instance) && is_live(a))
}

/// For messages: the instance of an attachment.
pub(crate) fn holder(attachment: &Attachment) -> String {
    match &attachment.instance {
        Some(instance) => format!("instance {instance}"),
        None => "something that is no instance of this account".to_owned(),
    }
}

fn is_live(attachment: &Attachment) -> bool {
    attachment.state != AttachmentState::Detached
}

//! How a volume stands towards a node, by what EC2 lists.

use ebs_ec2::{Attachment, AttachmentState, Volume};
use ebs_types::NodeId;

/// How a volume stands towards one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeAttachment {
    Attached(Attachment),
    /// On its way to it, or in a state that this version does not know.
    Attaching(Attachment),
    Detaching(Attachment),
    Absent,
}

impl NodeAttachment {
    /// The attachment that EC2 lists, if it does.
    pub(crate) fn listed(&self) -> Option<&Attachment> {
        match self {
            Self::Attached(attachment) | Self::Attaching(attachment) | Self::Detaching(attachment) => Some(attachment),
            Self::Absent => None,
        }
    }
}

/// What EC2 lists for the node; of several entries the last counts.
pub(crate) fn node_attachment(volume: &Volume, node: &NodeId) -> NodeAttachment {
    let here = volume.attachments.iter().rfind(|a| is_at(a, node) && is_live(a));
    let Some(here) = here.cloned() else { return NodeAttachment::Absent };
    match here.state {
        AttachmentState::Attached => NodeAttachment::Attached(here),
        AttachmentState::Attaching | AttachmentState::Other(_) => NodeAttachment::Attaching(here),
        AttachmentState::Detaching | AttachmentState::Busy | AttachmentState::Detached => {
            NodeAttachment::Detaching(here)
        }
    }
}

/// What keeps a volume that only one node may have from this one.
pub(crate) fn elsewhere<'a>(volume: &'a Volume, node: &NodeId) -> Option<&'a Attachment> {
    if volume.multi_attach == Some(true) {
        return None;
    }
    volume.attachments.iter().find(|a| !is_at(a, node) && is_live(a))
}

/// For messages: whom an attachment belongs to.
pub(crate) fn holder(attachment: &Attachment) -> String {
    match (&attachment.instance, &attachment.associated_resource) {
        (Some(instance), _) => format!("instance {instance}"),
        (None, Some(resource)) => resource.clone(),
        (None, None) => "something that is no instance of this account".to_owned(),
    }
}

fn is_at(attachment: &Attachment, node: &NodeId) -> bool {
    match node {
        NodeId::Instance(id) => attachment.instance.as_ref() == Some(id),
        NodeId::HyperPod(node) => attachment.cluster_node().as_ref() == Some(node.instance()),
    }
}

fn is_live(attachment: &Attachment) -> bool {
    attachment.state != AttachmentState::Detached
}

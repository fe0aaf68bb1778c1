//! The state of a volume's attachment to one node, as EC2 lists it.

use ebs_ec2::{Attachment, AttachmentState, NodeId, Volume};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeAttachment {
    Attached(Attachment),
    /// Attaching, or in a state that this version does not know.
    Attaching(Attachment),
    Detaching(Attachment),
    Absent,
}

impl NodeAttachment {
    pub(crate) fn listed(&self) -> Option<&Attachment> {
        match self {
            Self::Attached(attachment) | Self::Attaching(attachment) | Self::Detaching(attachment) => Some(attachment),
            Self::Absent => None,
        }
    }
}

/// Returns what EC2 lists for the node. If EC2 lists several attachments to it, the last one counts.
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

/// Returns an attachment to another node that blocks one to this node, or `None` for a Multi-Attach volume.
pub(crate) fn elsewhere<'a>(volume: &'a Volume, node: &NodeId) -> Option<&'a Attachment> {
    if volume.multi_attach == Some(true) {
        return None;
    }
    volume.attachments.iter().find(|a| !is_at(a, node) && is_live(a))
}

/// Returns the instance or service that holds the attachment, for messages.
pub(crate) fn holder(attachment: &Attachment) -> String {
    match (&attachment.instance, &attachment.associated_resource) {
        (Some(instance), _) => format!("instance {instance}"),
        (None, Some(resource)) => resource.clone(),
        (None, None) => "a resource that is not an instance of this account".to_owned(),
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

//! The key that an operation holds while it runs.

use std::fmt;
use std::path::PathBuf;

use ebs_ec2::{NodeId, SnapshotId, VolumeId};

use crate::volume_handle::VolumeHandle;

/// The object that an operation has exclusively. It is typed, so that keys of different kinds never collide, and each
/// object has its own key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// CreateVolume, by the CSI name.
    CreateVolume(String),
    /// DeleteVolume, Expand and Modify, by volume.
    Volume(VolumeId),
    /// Publish and Unpublish of the controller.
    Attachment {
        volume: VolumeId,
        /// The node to which the volume is or will be attached.
        node: NodeId,
    },
    /// CreateSnapshot, by the CSI name.
    CreateSnapshot(String),
    /// DeleteSnapshot, by snapshot.
    Snapshot(SnapshotId),
    /// Stage and unstage on the node, by volume. They exclude publish and growth.
    NodeVolume(VolumeHandle),
    /// Growth on the node, by volume.
    NodeGrowth(VolumeHandle),
    /// Publish and unpublish on the node, where several targets of one volume are legal.
    NodeTarget { volume: VolumeHandle, target: PathBuf },
}

impl Key {
    /// Returns the kind in one word, for a label of metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CreateVolume(_) => "CreateVolume",
            Self::Volume(_) => "Volume",
            Self::Attachment { .. } => "Attachment",
            Self::CreateSnapshot(_) => "CreateSnapshot",
            Self::Snapshot(_) => "Snapshot",
            Self::NodeVolume(_) => "NodeVolume",
            Self::NodeGrowth(_) => "NodeGrowth",
            Self::NodeTarget { .. } => "NodeTarget",
        }
    }

    /// Returns true when operations under both keys must not run at the same time. A stage or unstage needs the whole
    /// volume, and excludes publish, unpublish and growth. Equal keys exclude each other anyway.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        let whole = |key: &Self, part: &Self| match (key, part) {
            (Self::NodeVolume(whole), Self::NodeGrowth(part) | Self::NodeTarget { volume: part, .. }) => whole == part,
            _ => false,
        };
        whole(self, other) || whole(other, self)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateVolume(name) => write!(f, "creation of volume {name:?}"),
            Self::Volume(id) => write!(f, "volume {id}"),
            Self::Attachment { volume, node } => write!(f, "attachment of volume {volume} to node {node}"),
            Self::CreateSnapshot(name) => write!(f, "creation of snapshot {name:?}"),
            Self::Snapshot(id) => write!(f, "snapshot {id}"),
            Self::NodeVolume(id) => write!(f, "volume {id} on this node"),
            Self::NodeGrowth(id) => write!(f, "growth of volume {id} on this node"),
            Self::NodeTarget { volume, target } => write!(f, "volume {volume} at {}", target.display()),
        }
    }
}

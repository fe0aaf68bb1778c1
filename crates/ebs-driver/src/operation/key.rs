//! What an operation holds while it runs.

use std::fmt;
use std::path::PathBuf;

use ebs_types::{NodeId, SnapshotId, VolumeId};

/// The object that an operation has to itself (`decisions.md` D-11). Typed, so that keys of different kinds never
/// meet and no two different objects share one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// CreateVolume, by the CSI name.
    CreateVolume(String),
    /// DeleteVolume, Expand and Modify, by volume.
    Volume(VolumeId),
    /// Publish and Unpublish of the controller.
    Attachment {
        /// The volume.
        volume: VolumeId,
        /// The node it is or will be attached to.
        node: NodeId,
    },
    /// CreateSnapshot, by the CSI name.
    CreateSnapshot(String),
    /// DeleteSnapshot, by snapshot.
    Snapshot(SnapshotId),
    /// Stage, unstage and expand on the node, by volume.
    NodeVolume(VolumeId),
    /// Publish and unpublish on the node, where several targets of one volume are legal.
    NodeTarget {
        /// The volume.
        volume: VolumeId,
        /// The target path.
        target: PathBuf,
    },
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
            Self::NodeTarget { volume, target } => write!(f, "volume {volume} at {}", target.display()),
        }
    }
}

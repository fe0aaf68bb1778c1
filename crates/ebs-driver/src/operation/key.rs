use std::fmt;
use std::path::PathBuf;

use ebs_ec2::{NodeId, SnapshotId, VolumeId};

use crate::volume_handle::VolumeHandle;

/// The object that an operation uses exclusively. The kind of the object is part of the key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// CreateVolume, by CSI name.
    CreateVolume(String),
    /// DeleteVolume, ControllerExpandVolume and ControllerModifyVolume, by volume.
    Volume(VolumeId),
    /// ControllerPublishVolume and ControllerUnpublishVolume, by volume and node.
    Attachment { volume: VolumeId, node: NodeId },
    /// CreateSnapshot, by CSI name.
    CreateSnapshot(String),
    /// DeleteSnapshot, by snapshot.
    Snapshot(SnapshotId),
    /// NodeStageVolume and NodeUnstageVolume, by volume. Neither runs at the same time as a publish or growth of the
    /// volume.
    NodeVolume(VolumeHandle),
    /// NodeExpandVolume, by volume.
    NodeGrowth(VolumeHandle),
    /// NodePublishVolume and NodeUnpublishVolume, by volume and target: a volume may have several targets.
    NodeTarget { volume: VolumeHandle, target: PathBuf },
}

impl Key {
    /// Returns the kind of the key in one word, for a metric label.
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

    /// Returns true if different keys exclude each other: NodeStageVolume and NodeUnstageVolume need the whole volume,
    /// so they exclude publish, unpublish and growth.
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
            Self::NodeGrowth(id) => write!(f, "file system growth of volume {id} on this node"),
            Self::NodeTarget { volume, target } => write!(f, "volume {volume} at {}", target.display()),
        }
    }
}

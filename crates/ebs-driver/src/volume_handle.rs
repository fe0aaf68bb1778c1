use std::fmt;

use ebs_ec2::{IdError, VolumeId};

/// Prefix of the handles of node-local volumes. The device name follows: `local-ebs://dev/xvdbz`.
pub(crate) const NODE_LOCAL: &str = "local-ebs://";

/// The volume that a handle names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeHandle {
    Volume(VolumeId),
    /// On each node, the volume that is attached at this device. The text is the whole handle.
    NodeLocal(String),
}

impl VolumeHandle {
    /// Parses a handle that is not empty.
    pub fn parse(handle: &str) -> Result<Self, IdError> {
        if handle.starts_with(NODE_LOCAL) {
            return Ok(Self::NodeLocal(handle.to_owned()));
        }
        VolumeId::from_handle(handle).map(Self::Volume)
    }
}

impl fmt::Display for VolumeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(volume) => volume.fmt(f),
            Self::NodeLocal(handle) => f.write_str(handle),
        }
    }
}

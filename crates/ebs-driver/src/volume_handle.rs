//! What a volume handle names.

use std::fmt;

use ebs_types::{IdError, VolumeId};

/// Prefix of the handles of volumes that somebody else attaches to their nodes; the device follows, `local-ebs://dev/xvdbz`.
pub(crate) const NODE_LOCAL: &str = "local-ebs://";

/// What a volume handle names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeHandle {
    /// A volume of EC2's.
    Volume(VolumeId),
    /// What each node has at a device: another volume on each. The text is the whole handle.
    NodeLocal(String),
}

impl VolumeHandle {
    /// Reads a handle that is not empty.
    ///
    /// # Errors
    /// [`IdError`] for a handle that is neither node-local nor has a volume's id: it names nothing.
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

impl From<VolumeId> for VolumeHandle {
    fn from(volume: VolumeId) -> Self {
        Self::Volume(volume)
    }
}

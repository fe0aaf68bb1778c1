//! The EC2 objects that errors and in-memory records refer to.

use std::fmt;

use ebs_ec2::{InstanceId, SnapshotId, VolumeId};

/// An EC2 object that an error names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Object {
    Volume(VolumeId),
    Snapshot(SnapshotId),
    Instance(InstanceId),
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(id) => write!(f, "volume {id}"),
            Self::Snapshot(id) => write!(f, "snapshot {id}"),
            Self::Instance(id) => write!(f, "instance {id}"),
        }
    }
}

//! The sidecars that call a driver. Each has a separate lease, so with two replicas they may call different drivers.

use crate::calls::Target;
use crate::driver::Rpc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sidecar {
    Provisioner,
    Attacher,
    Resizer,
    Snapshotter,
}

impl Sidecar {
    pub(crate) const ALL: [Self; 4] = [Self::Provisioner, Self::Attacher, Self::Resizer, Self::Snapshotter];

    /// Returns its index.
    pub(crate) fn place(self) -> usize {
        match self {
            Self::Provisioner => 0,
            Self::Attacher => 1,
            Self::Resizer => 2,
            Self::Snapshotter => 3,
        }
    }

    /// Returns the sidecar that makes such calls.
    pub(crate) fn behind(target: &Target) -> Self {
        match target {
            Target::Create { .. } | Target::Delete { .. } => Self::Provisioner,
            Target::Publish { .. } | Target::Unpublish { .. } => Self::Attacher,
            Target::Expand { .. } | Target::Modify { .. } => Self::Resizer,
            Target::Snapshot { .. } | Target::DropSnapshot { .. } => Self::Snapshotter,
        }
    }

    /// Returns the sidecar of a call.
    pub(crate) fn calling(rpc: &Rpc) -> Self {
        match rpc {
            Rpc::CreateVolume(_) | Rpc::DeleteVolume(_) => Self::Provisioner,
            Rpc::Publish(_) | Rpc::Unpublish(_) => Self::Attacher,
            // The volume modifier follows the resizer's lease.
            Rpc::Expand(_) | Rpc::Modify(_) | Rpc::ModifyProperties(_) => Self::Resizer,
            Rpc::CreateSnapshot(_) | Rpc::DeleteSnapshot(_) => Self::Snapshotter,
        }
    }
}

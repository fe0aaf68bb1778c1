//! The calls in flight, and their objects.

use crate::classes::Class;
use crate::content::{SnapOrder, VolumeOrder};
use crate::sidecar::Sidecar;

#[derive(Debug, Clone)]
pub(crate) enum Target {
    Create { claim: usize, order: VolumeOrder },
    Delete { claim: usize, id: String },
    Publish { id: String, node: usize, shared: bool },
    Unpublish { id: String, node: usize },
    Expand { id: String, gib: i64, shared: bool },
    Modify { id: String, class: Class },
    Snapshot { snap: usize, order: SnapOrder },
    DropSnapshot { snap: usize, id: String },
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) target: Target,
    pub(crate) driver: usize,
    /// The number of earlier opposing calls: Unpublish for Publish and the reverse, Modify for Expand.
    pub(crate) others_before: u64,
    /// For expand, the ratio by which the call must raise the IOPS.
    pub(crate) ratio: Option<u64>,
    /// For modify, the minimum size of the volume in GiB.
    pub(crate) gib: i64,
    /// True if the volume or source certainly existed when the call was sent.
    pub(crate) was_sure: bool,
    /// True if the request differs from the request that led to the current state.
    pub(crate) is_contrary: bool,
    /// True if the orchestrator knows that the call may fail, because the volume is on another node or in use.
    pub(crate) is_loose: bool,
}

impl Target {
    pub(crate) fn sidecar(&self) -> Sidecar {
        match self {
            Self::Create { .. } | Self::Delete { .. } => Sidecar::Provisioner,
            Self::Publish { .. } | Self::Unpublish { .. } => Sidecar::Attacher,
            Self::Expand { .. } | Self::Modify { .. } => Sidecar::Resizer,
            Self::Snapshot { .. } | Self::DropSnapshot { .. } => Sidecar::Snapshotter,
        }
    }
}

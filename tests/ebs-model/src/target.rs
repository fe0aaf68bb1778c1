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
    /// The number of calls before: Unpublish for Publish and the reverse, Modify for Expand.
    pub(crate) others_before: u64,
    /// Expand: the ratio by which it must raise the IOPS.
    pub(crate) ratio: Option<u64>,
    /// Modify: the minimum size of the volume.
    pub(crate) gib: i64,
    /// The volume or source certainly existed when the call was sent.
    pub(crate) was_sure: bool,
    /// The request differs from the one of the present state.
    pub(crate) is_contrary: bool,
    /// The orchestrator knows that the call may fail: the volume is on another node, or in use.
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

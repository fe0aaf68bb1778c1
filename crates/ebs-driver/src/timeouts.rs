//! The time limits of the services.
//!
//! Decision: `docs/decisions/0004-bound-every-wait-and-isolate-a-hung-disk.md`.

use std::time::Duration;

use crate::rpc::Rpc;

impl Rpc {
    /// Returns how long one request waits at most for the operation that it has started or joined, unless its own
    /// deadline is earlier. It includes the wait for a previous operation that is to end. Zero means that the RPC
    /// starts no operation, and ends with its request.
    ///
    /// The end of a wait never ends the work: no deadline kills mkfs, fsck or resize. The sidecars of the official
    /// chart wait 60 s (attacher: 6 min), and the kubelet 2 min. They call again and join the running operation.
    pub const fn timeout(self) -> Duration {
        Duration::from_secs(match self {
            // A volume from a snapshot, or in a busy zone, can take minutes to become available.
            Self::CreateVolume => 300,
            Self::DeleteVolume => 120,
            // The attacher's own limit.
            Self::ControllerPublishVolume | Self::ControllerUnpublishVolume => 360,
            // EC2 may take minutes until a modification leaves `modifying`. The window for merging requests is short.
            Self::ControllerExpandVolume | Self::ControllerModifyVolume | Self::ModifyVolumeProperties => 300,
            // EC2 accepts no second snapshot of a volume within 15 s, and a describe may need as long again.
            Self::CreateSnapshot | Self::DeleteSnapshot => 120,
            // fsck and mkfs of a large disk take a long time. A retry joins.
            Self::NodeStageVolume => 600,
            Self::NodeExpandVolume => 300,
            Self::NodeUnstageVolume | Self::NodePublishVolume | Self::NodeUnpublishVolume => 120,
            _ => 0,
        })
    }
}

/// The time for which a call waits for the services at start, if its client waits as long. It is longer than all
/// sources of metadata take together.
pub const STARTUP: Duration = Duration::from_secs(60);

/// How often a shutdown looks for operations without callers.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(100);

/// How long the driver gathers changes of one volume before it carries them out.
pub const MODIFICATION_WINDOW: Duration = Duration::from_secs(2);
/// How long a window waits for callers to come back. Without it, a client with a deadline shorter than a window would
/// open a window with each attempt. It is longer than the pauses of sidecars, which grow to half an hour.
pub const MODIFICATION_RETURN: Duration = Duration::from_secs(3600);

/// Node work that took at least this long waits for the next call. The next call repeats shorter work.
pub const WORK_WORTH_KEEPING: Duration = Duration::from_secs(15);
/// How long such work waits. The kubelet's longest pause between two calls is 2 min 2 s.
pub const NEXT_NODE_CALL: Duration = Duration::from_secs(150);

/// The interval between two health checks of all volumes of a node.
pub const HEALTH_INTERVAL: Duration = Duration::from_secs(60);

/// The time after which a file system that is smaller than its disk is reported without a failed growth. Until then, a
/// process may be about to grow it.
pub const GROWTH_DUE: Duration = Duration::from_secs(300);
/// The driver does not soon repeat a growth before the mount that took longer than this and failed: each attempt keeps
/// the volume from its pods.
pub const LONG_GROWTH: Duration = Duration::from_secs(60);
/// The time after which such a growth is tried again.
pub const LONG_GROWTH_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    /// The other RPCs change nothing.
    #[test]
    fn every_mutating_rpc_has_a_timeout() {
        let without: Vec<_> = Rpc::ALL.iter().filter(|rpc| rpc.timeout().is_zero()).map(|rpc| rpc.name()).collect();
        let mutates = ["Create", "Delete", "Publish", "Stage", "Unstage", "Unpublish", "Expand", "ModifyVolume"];
        let forgotten = |name: &&&str| mutates.iter().any(|verb| name.contains(verb));
        assert_eq!(without.iter().find(forgotten), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn proof_of_a_blank_disk_may_take_as_long_as_a_stage() {
        assert_eq!(ebs_mounter::PROOF_BOUND, Rpc::NodeStageVolume.timeout());
    }
}

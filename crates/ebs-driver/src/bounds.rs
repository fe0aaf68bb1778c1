//! How long one request waits for its operation at most, when its own deadline is not earlier.
//!
//! The end of a wait never ends the work (`decisions.md` D-10): mkfs, fsck and resize are not killed by a deadline.

use std::time::Duration;

/// The RPCs that run as operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are CSI's own")]
pub enum Operation {
    CreateVolume,
    DeleteVolume,
    ControllerPublishVolume,
    ControllerUnpublishVolume,
    ControllerExpandVolume,
    CreateSnapshot,
    DeleteSnapshot,
    NodeStageVolume,
    NodeUnstageVolume,
    NodePublishVolume,
    NodeUnpublishVolume,
    NodeExpandVolume,
}

/// The bound of each operation. The sidecars of the official chart wait 60 s (attacher: 6 min), the kubelet 2 min;
/// they call again and join what still runs.
pub const fn bound(operation: Operation) -> Duration {
    let seconds = match operation {
        // A volume from a snapshot or of a busy zone can take minutes to become available.
        Operation::CreateVolume => 300,
        Operation::DeleteVolume => 120,
        // The attacher's own limit.
        Operation::ControllerPublishVolume | Operation::ControllerUnpublishVolume => 360,
        Operation::ControllerExpandVolume => 300,
        // EC2 takes no second snapshot of a volume within 15 s and a look-up may need as long again.
        Operation::CreateSnapshot | Operation::DeleteSnapshot => 120,
        // fsck and mkfs of a large disk take their time; a retry joins.
        Operation::NodeStageVolume => 600,
        Operation::NodeExpandVolume => 300,
        Operation::NodeUnstageVolume | Operation::NodePublishVolume | Operation::NodeUnpublishVolume => 120,
    };
    Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_that_a_disk_is_blank_may_take_as_long_as_a_stage() {
        assert_eq!(ebs_mounter::PROOF_BOUND, bound(Operation::NodeStageVolume));
    }
}

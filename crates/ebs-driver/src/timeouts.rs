//! The driver's timeouts and intervals. Decision: `docs/dev/decisions/0004-bound-every-wait-and-isolate-a-hung-disk.md`.

use std::time::Duration;

use crate::rpc::Rpc;

impl Rpc {
    /// Returns the longest time that one request waits for the operation that it has started or joined, including the
    /// wait for a previous operation. Zero means that the RPC starts no operation. The end of a wait never ends the
    /// work: sidecars (timeout 60 s; attacher 6 min) and the kubelet (2 min) call again and join the running operation.
    pub const fn timeout(self) -> Duration {
        Duration::from_secs(match self {
            // A volume from a snapshot, or in a busy zone, can take minutes to become available.
            Self::CreateVolume => 300,
            Self::DeleteVolume => 120,
            // The attacher's own timeout is also 6 min.
            Self::ControllerPublishVolume | Self::ControllerUnpublishVolume => 360,
            // EC2 may take minutes until a modification leaves the state `modifying`.
            Self::ControllerExpandVolume | Self::ControllerModifyVolume | Self::ModifyVolumeProperties => 300,
            // EC2 accepts one snapshot of a volume every 15 s, and DescribeSnapshots can lag by as much.
            Self::CreateSnapshot | Self::DeleteSnapshot => 120,
            // fsck and mkfs of a large disk take a long time. A repeated call joins them.
            Self::NodeStageVolume => 600,
            Self::NodeExpandVolume => 300,
            Self::NodeUnstageVolume | Self::NodePublishVolume | Self::NodeUnpublishVolume => 120,
            _ => 0,
        })
    }
}

/// The longest time that a call waits for the services to start. It exceeds the total time of all metadata sources.
pub const STARTUP: Duration = Duration::from_secs(60);

pub const DRAIN_INTERVAL: Duration = Duration::from_millis(100);

/// How long the driver gathers changes of one volume before it applies them.
pub const MODIFICATION_WINDOW: Duration = Duration::from_secs(2);
/// How long the driver keeps a closed modification window that no caller waits for. Otherwise, a client whose deadline
/// is shorter than a window would open a new window each time. This exceeds the pauses of sidecars, which grow to half
/// an hour.
pub const MODIFICATION_RETURN: Duration = Duration::from_secs(3600);

/// Node work that took at least this long is worth keeping: the driver waits for the next call to continue it.
pub const WORK_WORTH_KEEPING: Duration = Duration::from_secs(15);
/// How long the driver waits for the next call to continue node work. The kubelet's longest pause between two calls is
/// 2 min 2 s.
pub const NEXT_NODE_CALL: Duration = Duration::from_secs(150);

pub const HEALTH_INTERVAL: Duration = Duration::from_secs(60);

/// How long a file system may be smaller than its disk before the driver reports it: a process may be about to grow it.
pub const GROWTH_DUE: Duration = Duration::from_secs(300);
/// If a failed growth delayed a mount, and so its pods, by at least this long, the driver waits `LONG_GROWTH_PAUSE`
/// before it tries again.
pub const LONG_GROWTH: Duration = Duration::from_secs(60);
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
    fn blank_disk_proof_has_the_timeout_of_node_stage_volume() {
        assert_eq!(ebs_mounter::PROOF_BOUND, Rpc::NodeStageVolume.timeout());
    }
}

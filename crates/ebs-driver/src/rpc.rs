//! The RPCs of CSI: their names in logs, metrics and messages, and how long a request waits for its operation.
//!
//! Decision: `docs/decisions/0004-bound-every-wait-and-isolate-a-hung-disk.md`.

use std::fmt;
use std::time::Duration;

macro_rules! rpcs {
    ($($rpc:ident),* $(,)?) => {
        /// An RPC of CSI 1.13's services Identity, Controller and Node, or of the volume modifier's `modify.v1`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names are the protocols' own")]
        pub enum Rpc {
            $($rpc),*
        }

        impl Rpc {
            pub const ALL: &[Self] = &[$(Self::$rpc),*];

            /// The method's name, `CreateVolume`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$rpc => stringify!($rpc)),*
                }
            }
        }
    };
}

rpcs! {
    GetPluginInfo,
    GetPluginCapabilities,
    Probe,
    CreateVolume,
    DeleteVolume,
    ControllerPublishVolume,
    ControllerUnpublishVolume,
    ValidateVolumeCapabilities,
    ListVolumes,
    ControllerListVolumeHealth,
    ControllerGetVolumeHealth,
    GetCapacity,
    ControllerGetCapabilities,
    CreateSnapshot,
    DeleteSnapshot,
    ListSnapshots,
    GetSnapshot,
    ControllerExpandVolume,
    ControllerGetVolume,
    ControllerModifyVolume,
    NodeStageVolume,
    NodeUnstageVolume,
    NodePublishVolume,
    NodeUnpublishVolume,
    NodeGetVolumeStats,
    NodeGetVolumeHealth,
    NodeGetStorageHealth,
    NodeExpandVolume,
    NodeGetCapabilities,
    NodeGetInfo,
    GetCSIDriverModificationCapability,
    ModifyVolumeProperties,
}

/// The services of the RPCs, as in paths.
const SERVICES: [&str; 4] = ["csi.v1.Identity", "csi.v1.Controller", "csi.v1.Node", "modify.v1.Modify"];

/// Returns the service in a path such as `/csi.v1.Controller/CreateVolume`, or `None` for a service of another
/// protocol.
pub(crate) fn service_of_path(path: &str) -> Option<&'static str> {
    let (name, _) = path.strip_prefix('/')?.split_once('/')?;
    SERVICES.into_iter().find(|service| *service == name)
}

impl Rpc {
    /// Returns the RPC of a path such as `/csi.v1.Controller/CreateVolume`, or `None` for a method of another protocol.
    pub fn of_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or_default();
        Self::ALL.iter().find(|rpc| rpc.name() == name).copied()
    }

    /// Returns how long one request waits at most for the operation that it has started or joined, unless its own
    /// deadline is earlier. Zero means that the RPC changes nothing, starts no operation and ends with its request.
    ///
    /// The end of a wait never ends the work: no deadline kills mkfs, fsck or resize. The sidecars of the official
    /// chart wait 60 s (attacher: 6 min), and the kubelet 2 min. They call again and join the running operation.
    pub const fn bound(self) -> Duration {
        let seconds = match self {
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
            Self::GetPluginInfo
            | Self::GetPluginCapabilities
            | Self::Probe
            | Self::ValidateVolumeCapabilities
            | Self::ListVolumes
            | Self::ControllerListVolumeHealth
            | Self::ControllerGetVolumeHealth
            | Self::GetCapacity
            | Self::ControllerGetCapabilities
            | Self::ListSnapshots
            | Self::GetSnapshot
            | Self::ControllerGetVolume
            | Self::NodeGetVolumeStats
            | Self::NodeGetVolumeHealth
            | Self::NodeGetStorageHealth
            | Self::NodeGetCapabilities
            | Self::NodeGetInfo
            | Self::GetCSIDriverModificationCapability => 0,
        };
        Duration::from_secs(seconds)
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn proof_of_a_blank_disk_may_take_as_long_as_a_stage() {
        assert_eq!(ebs_mounter::PROOF_BOUND, Rpc::NodeStageVolume.bound());
    }

    #[test]
    fn only_csi_methods_are_rpcs() {
        for rpc in Rpc::ALL {
            assert_eq!(Rpc::of_path(&format!("/csi.v1.Controller/{rpc}")), Some(*rpc));
        }
        for odd in ["/csi.v1.Controller/Evil\"} 1", "", "/", "CreateVolume2", "/x/createvolume"] {
            assert_eq!(Rpc::of_path(odd), None, "{odd}");
        }
    }
}

//! The RPCs of CSI: their names, in logs, metrics and messages, and how long one request waits for its operation.
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

/// The services that the RPCs belong to, as paths name them.
const SERVICES: [&str; 4] = ["csi.v1.Identity", "csi.v1.Controller", "csi.v1.Node", "modify.v1.Modify"];

/// The service in a path such as `/csi.v1.Controller/CreateVolume`; `None` for those that these protocols do not have.
pub(crate) fn service_of_path(path: &str) -> Option<&'static str> {
    let (name, _) = path.strip_prefix('/')?.split_once('/')?;
    SERVICES.into_iter().find(|service| *service == name)
}

impl Rpc {
    /// Of a path such as `/csi.v1.Controller/CreateVolume`; `None` for methods that these protocols do not have.
    pub fn of_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or_default();
        Self::ALL.iter().find(|rpc| rpc.name() == name).copied()
    }

    /// How long one request waits at most for the operation that it has started or joined, when its own deadline is not
    /// earlier. Zero: the RPC changes nothing, starts no operation and ends with its request.
    ///
    /// The end of a wait never ends the work: mkfs, fsck and resize are not killed by a deadline. The
    /// sidecars of the official chart wait 60 s (attacher: 6 min), the kubelet 2 min; they call again and join what still
    /// runs.
    pub const fn bound(self) -> Duration {
        let seconds = match self {
            // A volume from a snapshot or of a busy zone can take minutes to become available.
            Self::CreateVolume => 300,
            Self::DeleteVolume => 120,
            // The attacher's own limit.
            Self::ControllerPublishVolume | Self::ControllerUnpublishVolume => 360,
            // EC2 may take minutes until a modification is past `modifying`; the time in which others join it is short.
            Self::ControllerExpandVolume | Self::ControllerModifyVolume | Self::ModifyVolumeProperties => 300,
            // EC2 takes no second snapshot of a volume within 15 s and a look-up may need as long again.
            Self::CreateSnapshot | Self::DeleteSnapshot => 120,
            // fsck and mkfs of a large disk take their time; a retry joins.
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

    /// The proof that a disk is blank may take as long as a stage.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_proof_that_a_disk_is_blank_may_take_as_long_as_a_stage() {
        assert_eq!(ebs_mounter::PROOF_BOUND, Rpc::NodeStageVolume.bound());
    }

    #[test]
    fn only_methods_of_csi_are_rpcs() {
        for rpc in Rpc::ALL {
            assert_eq!(Rpc::of_path(&format!("/csi.v1.Controller/{rpc}")), Some(*rpc));
        }
        for odd in ["/csi.v1.Controller/Evil\"} 1", "", "/", "CreateVolume2", "/x/createvolume"] {
            assert_eq!(Rpc::of_path(odd), None, "{odd}");
        }
    }
}

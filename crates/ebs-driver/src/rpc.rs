//! The RPCs of CSI: their names in logs, metrics and messages.

use std::fmt;

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

            /// Returns the method's name, such as `CreateVolume`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$rpc => stringify!($rpc)),*
                }
            }
        }
    };
}

rpcs! {
    GetPluginInfo, GetPluginCapabilities, Probe,
    CreateVolume, DeleteVolume, ControllerPublishVolume, ControllerUnpublishVolume, ValidateVolumeCapabilities, ListVolumes,
    ControllerListVolumeHealth, ControllerGetVolumeHealth, GetCapacity, ControllerGetCapabilities, CreateSnapshot,
    DeleteSnapshot, ListSnapshots, GetSnapshot, ControllerExpandVolume, ControllerGetVolume, ControllerModifyVolume,
    NodeStageVolume, NodeUnstageVolume, NodePublishVolume, NodeUnpublishVolume, NodeGetVolumeStats, NodeGetVolumeHealth,
    NodeGetStorageHealth, NodeExpandVolume, NodeGetCapabilities, NodeGetInfo,
    GetCSIDriverModificationCapability, ModifyVolumeProperties,
}

const SERVICES: [&str; 4] = ["csi.v1.Identity", "csi.v1.Controller", "csi.v1.Node", "modify.v1.Modify"];

/// Returns the service that a path such as `/csi.v1.Controller/CreateVolume` names, if it is one of CSI's.
pub(crate) fn service_from_path(path: &str) -> Option<&'static str> {
    let (name, _) = path.strip_prefix('/')?.split_once('/')?;
    SERVICES.into_iter().find(|service| *service == name)
}

impl Rpc {
    /// Returns the RPC that a path such as `/csi.v1.Controller/CreateVolume` names, if it is one of CSI's.
    pub fn from_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or_default();
        Self::ALL.iter().find(|rpc| rpc.name() == name).copied()
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

    #[test]
    fn only_paths_of_csi_methods_are_parsed_as_rpcs() {
        for rpc in Rpc::ALL {
            assert_eq!(Rpc::from_path(&format!("/csi.v1.Controller/{rpc}")), Some(*rpc));
        }
        for odd in ["/csi.v1.Controller/Evil\"} 1", "", "/", "CreateVolume2", "/x/createvolume"] {
            assert_eq!(Rpc::from_path(odd), None, "{odd}");
        }
    }
}

//! Volume capabilities, and the check that EBS supports them.

use std::collections::BTreeSet;

use csi_proto::csi::VolumeCapability;
use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_capability::access_mode::Mode;
use ebs_mounter::{FsType, MountOptions, OptionsError};

/// How workloads access the volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    Block,
    Mount {
        /// The requested file system. Empty if the request does not name one.
        fs_type: String,
    },
    Unset,
}

const NTFS: &str = "ntfs";
const ON_LINUX: &str = "ext4, ext3, ext2 or xfs";
const WINDOWS: &str = "windows";
/// File systems for which a Windows node uses NTFS, its default.
const EXT: [&str; 3] = ["ext2", "ext3", "ext4"];

impl Access {
    /// Returns the file system that a Linux node would create, or `None` for raw block and unknown names.
    pub fn linux_file_system(&self) -> Option<FsType> {
        match self {
            Self::Mount { fs_type } => FsType::parse(fs_type).ok(),
            Self::Block | Self::Unset => None,
        }
    }
}

/// A capability that EBS supports.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Capability {
    pub access: Access,
    /// Several nodes may access the volume at once (block only).
    pub multi_node: bool,
}

/// A required capability is missing, or EBS does not support it. The code is always InvalidArgument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    #[error("the request has no volume capability")]
    Missing,
    #[error(
        "access mode {mode} of a {access} volume is not supported; use SINGLE_NODE_WRITER, or \
             MULTI_NODE_MULTI_WRITER for a block volume"
    )]
    Unsupported { mode: String, access: &'static str },
    #[error(
        "access mode {mode} of a node-local volume is not supported; use SINGLE_NODE_WRITER, or MULTI_NODE_MULTI_WRITER \
             if each node has its own device"
    )]
    UnsupportedLocally { mode: String },
    #[error(
        "volume_capability asks for file system {fs_type:?}, which no node can mount; use {ON_LINUX}, or {NTFS} for Windows nodes"
    )]
    FileSystem { fs_type: String },
    /// The required topology permits only nodes with an operating system that cannot mount the file system.
    #[error(
        "volume_capability asks for file system {fs_type:?}, but accessibility_requirements allow only {os} nodes, which cannot \
             mount it; use {possible}"
    )]
    OtherSystem { fs_type: String, os: &'static str, possible: &'static str },
    #[error("volume_capability has mount flags that no node can use")]
    MountFlags(#[source] OptionsError),
}

impl TryFrom<&VolumeCapability> for Capability {
    type Error = CapabilityError;

    fn try_from(wire: &VolumeCapability) -> Result<Self, CapabilityError> {
        let ((access, name), (mode, mode_name)) = (access(wire), mode(wire));
        match mode {
            Some(Mode::SingleNodeWriter) => Ok(Self { access, multi_node: false }),
            Some(Mode::MultiNodeMultiWriter) if access == Access::Block => Ok(Self { access, multi_node: true }),
            _ => Err(CapabilityError::Unsupported { mode: mode_name, access: name }),
        }
    }
}

fn access(wire: &VolumeCapability) -> (Access, &'static str) {
    match &wire.access_type {
        Some(AccessType::Block(_)) => (Access::Block, "block"),
        Some(AccessType::Mount(mount)) => (Access::Mount { fs_type: mount.fs_type.clone() }, "mount"),
        None => (Access::Unset, "unspecified"),
    }
}

fn mode(wire: &VolumeCapability) -> (Option<Mode>, String) {
    let number = wire.access_mode.as_ref().map_or(0, |m| m.mode);
    let mode = Mode::try_from(number).ok();
    (mode, mode.map_or_else(|| number.to_string(), |mode| mode.as_str_name().to_owned()))
}

/// Converts a capability for a node-local volume. The handle means a different volume on each node, so both one writer
/// on one node and one writer on each of several nodes are supported.
pub fn of_node_local(wire: &VolumeCapability) -> Result<Capability, CapabilityError> {
    let multi_node = match mode(wire) {
        (Some(Mode::SingleNodeWriter), _) => false,
        (Some(Mode::MultiNodeMultiWriter), _) => true,
        (_, mode) => return Err(CapabilityError::UnsupportedLocally { mode }),
    };
    Ok(Capability { access: access(wire).0, multi_node })
}

/// Parses all capabilities of a request. Returns an error unless EBS supports each of them.
pub fn parse_all(wire: &[VolumeCapability]) -> Result<Vec<Capability>, CapabilityError> {
    if wire.is_empty() {
        return Err(CapabilityError::Missing);
    }
    wire.iter().map(Capability::try_from).collect()
}

/// Refuses a file system or mount flags that no node can use, as far as the controller can check this. `systems` are
/// the operating systems that the required topology permits, or `None` if it permits any.
pub fn check_mounts(wire: &[VolumeCapability], systems: Option<&BTreeSet<String>>) -> Result<(), CapabilityError> {
    let only = |os: &str| systems.is_some_and(|systems| systems.iter().all(|system| system == os));
    for capability in wire {
        let Some(AccessType::Mount(mount)) = &capability.access_type else { continue };
        check_file_system(capability)?;
        let fs_type = &mount.fs_type;
        let other = |os, possible| Err(CapabilityError::OtherSystem { fs_type: fs_type.clone(), os, possible });
        if fs_type.eq_ignore_ascii_case(NTFS) {
            if only("linux") {
                return other("Linux", ON_LINUX);
            }
            continue;
        }
        // A StorageClass that names no file system requests ext4, and a Windows node then formats the volume as NTFS.
        if only(WINDOWS) && !fs_type.is_empty() && !EXT.iter().any(|ext| fs_type.eq_ignore_ascii_case(ext)) {
            return other("Windows", NTFS);
        }
        if !only(WINDOWS) {
            let flags = mount.mount_flags.iter().map(String::as_str);
            MountOptions::parse(flags).map_err(CapabilityError::MountFlags)?;
        }
    }
    Ok(())
}

/// Refuses a file system that no node can mount.
pub fn check_file_system(wire: &VolumeCapability) -> Result<(), CapabilityError> {
    match &wire.access_type {
        Some(AccessType::Mount(mount))
            if FsType::parse(&mount.fs_type).is_err() && !mount.fs_type.eq_ignore_ascii_case(NTFS) =>
        {
            Err(CapabilityError::FileSystem { fs_type: mount.fs_type.clone() })
        }
        _ => Ok(()),
    }
}

/// Logs requested features that the driver does not support and that have no effect.
pub fn log_without_effect(wire: &[VolumeCapability]) {
    for capability in wire {
        if let Some(AccessType::Mount(mount)) = &capability.access_type
            && !mount.volume_mount_group.is_empty()
        {
            tracing::warn!(
                volume_mount_group = mount.volume_mount_group,
                "ignoring unsupported volume_mount_group: the orchestrator sets the group of the files"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::csi::volume_capability::{AccessMode, BlockVolume, MountVolume};

    fn wire(access_type: Option<AccessType>, mode: i32) -> VolumeCapability {
        VolumeCapability { access_type, access_mode: Some(AccessMode { mode }) }
    }

    /// The driver rejects all other access modes, including modes of a later version of CSI.
    #[test]
    fn one_writer_supports_any_access_type_and_several_only_block() {
        let block = || Some(AccessType::Block(BlockVolume {}));
        let mount = || Some(AccessType::Mount(MountVolume::default()));
        for mode in (0..100).chain([i32::MAX]) {
            let expected = match Mode::try_from(mode) {
                Ok(Mode::SingleNodeWriter) => [true, true, true],
                Ok(Mode::MultiNodeMultiWriter) => [false, true, false],
                _ => [false; 3],
            };
            let got = [mount(), block(), None].map(|access| Capability::try_from(&wire(access, mode)).is_ok());
            assert_eq!(got, expected, "{mode}");
        }
    }

    /// The volume is a file system or a raw device. The driver rejects other access modes.
    #[test]
    fn node_local_volume_supports_single_writer_and_multi_writer() {
        for mode in 0..9 {
            for access in
                [None, Some(AccessType::Block(BlockVolume {})), Some(AccessType::Mount(MountVolume::default()))]
            {
                let possible = [Mode::SingleNodeWriter.into(), Mode::MultiNodeMultiWriter.into()].contains(&mode);
                assert_eq!(of_node_local(&wire(access, mode)).is_ok(), possible, "{mode}");
            }
        }
    }

    #[test]
    fn capability_list_is_supported_if_every_element_is() {
        let good = wire(Some(AccessType::Block(BlockVolume {})), Mode::SingleNodeWriter.into());
        let bad = wire(None, Mode::SingleNodeReaderOnly.into());
        assert_eq!(parse_all(&[]), Err(CapabilityError::Missing));
        assert!(parse_all(&[good.clone(), good.clone()]).is_ok());
        let error = parse_all(&[good, bad]).expect_err("refused");
        assert!(error.to_string().contains("SINGLE_NODE_READER_ONLY"), "{error}");
    }
}

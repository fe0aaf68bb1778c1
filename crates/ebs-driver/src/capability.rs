//! Volume capabilities: which access EBS can give.

use std::collections::BTreeSet;

use csi_proto::csi::VolumeCapability;
use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_capability::access_mode::Mode;
use ebs_mounter::{FsType, MountOptions, OptionsError};

use crate::status::{IntoStatus, Meaning};

/// How a workload sees the volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// As a raw device.
    Block,
    /// As a file system.
    Mount {
        /// As asked for; may be empty.
        fs_type: String,
    },
    /// Not said.
    Unset,
}

/// The file system of Windows nodes.
const NTFS: &str = "ntfs";
/// File systems of Linux nodes, for messages.
const ON_LINUX: &str = "ext4, ext3, ext2 or xfs";
const WINDOWS: &str = "windows";
/// What the Windows node takes for "the default".
const EXT: [&str; 3] = ["ext2", "ext3", "ext4"];

impl Access {
    /// The file system that a Linux node would make; `None` for raw block volumes and for names that it does not know.
    pub fn linux_file_system(&self) -> Option<FsType> {
        match self {
            Self::Mount { fs_type } => FsType::parse(fs_type).ok(),
            Self::Block | Self::Unset => None,
        }
    }
}

/// A capability that EBS can give.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Capability {
    pub access: Access,
    /// By several nodes at once (block only).
    pub multi_node: bool,
}

/// A capability that is missing or that EBS cannot give. Always InvalidArgument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    #[error("the request names no volume capability")]
    Missing,
    #[error(
        "access mode {mode} of a {access} volume is not supported: use SINGLE_NODE_WRITER, or \
             MULTI_NODE_MULTI_WRITER for a block volume"
    )]
    Unsupported {
        mode: String,
        /// `mount`, `block` or `unspecified`.
        access: &'static str,
    },
    /// Of a node-local volume.
    #[error(
        "access mode {mode} of a node-local volume is not supported: use SINGLE_NODE_WRITER, or MULTI_NODE_MULTI_WRITER \
             for several nodes with a device each"
    )]
    UnsupportedLocally { mode: String },
    /// Neither Linux nor Windows nodes mount it.
    #[error(
        "volume_capability asks for file system {fs_type:?}, which no node can mount: use {ON_LINUX}, or {NTFS} for Windows nodes"
    )]
    FileSystem { fs_type: String },
    /// The required topology leaves only nodes of an operating system that does not mount it.
    #[error(
        "volume_capability asks for file system {fs_type:?}, but accessibility_requirements leave only {os} nodes, which cannot \
             mount it: use {possible}"
    )]
    OtherSystem { fs_type: String, os: &'static str, possible: &'static str },
    #[error("volume_capability has mount flags that no node can use")]
    MountFlags(#[source] OptionsError),
}

impl IntoStatus for CapabilityError {
    fn meaning(&self) -> Meaning {
        Meaning::InvalidArgument
    }
}

impl TryFrom<&VolumeCapability> for Capability {
    type Error = CapabilityError;

    fn try_from(wire: &VolumeCapability) -> Result<Self, CapabilityError> {
        let (access, name) = access(wire);
        let number = wire.access_mode.as_ref().map_or(0, |m| m.mode);
        let mode = Mode::try_from(number);
        match mode {
            Ok(Mode::SingleNodeWriter) => Ok(Self { access, multi_node: false }),
            Ok(Mode::MultiNodeMultiWriter) if access == Access::Block => Ok(Self { access, multi_node: true }),
            Ok(
                Mode::MultiNodeMultiWriter
                | Mode::Unknown
                | Mode::SingleNodeReaderOnly
                | Mode::MultiNodeReaderOnly
                | Mode::MultiNodeSingleWriter
                | Mode::SingleNodeSingleWriter
                | Mode::SingleNodeMultiWriter,
            )
            | Err(_) => {
                let mode = mode.map_or_else(|_| number.to_string(), |m| m.as_str_name().to_owned());
                Err(CapabilityError::Unsupported { mode, access: name })
            }
        }
    }
}

/// How the workload sees the volume, and the word for it.
fn access(wire: &VolumeCapability) -> (Access, &'static str) {
    match &wire.access_type {
        Some(AccessType::Block(_)) => (Access::Block, "block"),
        Some(AccessType::Mount(mount)) => (Access::Mount { fs_type: mount.fs_type.clone() }, "mount"),
        None => (Access::Unset, "unspecified"),
    }
}

/// Refuses the access that a node-local volume cannot give. Each node has a volume of its own behind the handle, so it may be
/// one writer on one node, or one on each of several, with a file system or without.
///
/// # Errors
/// [`CapabilityError::Unsupported`].
pub fn check_node_local(wire: &VolumeCapability) -> Result<(), CapabilityError> {
    let number = wire.access_mode.as_ref().map_or(0, |m| m.mode);
    match Mode::try_from(number) {
        Ok(Mode::SingleNodeWriter | Mode::MultiNodeMultiWriter) => Ok(()),
        mode => {
            let mode = mode.map_or_else(|_| number.to_string(), |m| m.as_str_name().to_owned());
            Err(CapabilityError::UnsupportedLocally { mode })
        }
    }
}

/// As the plain conversion, for a node-local volume.
///
/// # Errors
/// As [`check_node_local`].
pub fn of_node_local(wire: &VolumeCapability) -> Result<Capability, CapabilityError> {
    check_node_local(wire)?;
    let (access, _) = access(wire);
    let multi_node = wire.access_mode.as_ref().is_some_and(|mode| mode.mode() == Mode::MultiNodeMultiWriter);
    Ok(Capability { access, multi_node })
}

/// All capabilities of a request; every one must be possible.
///
/// # Errors
/// [`CapabilityError`], for none at all or for the first that EBS cannot give.
pub fn parse_all(wire: &[VolumeCapability]) -> Result<Vec<Capability>, CapabilityError> {
    if wire.is_empty() {
        return Err(CapabilityError::Missing);
    }
    wire.iter().map(Capability::try_from).collect()
}

/// Refuses a file system or mount flags that no node can use, as far as that needs no node. `systems` are the operating
/// systems that the required topology leaves; `None`: any.
///
/// # Errors
/// [`CapabilityError::FileSystem`], [`CapabilityError::OtherSystem`], [`CapabilityError::MountFlags`].
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
        // Linux' default is what a class without a file system comes to: on Windows such a volume is NTFS.
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
///
/// # Errors
/// [`CapabilityError::FileSystem`].
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

/// Logs what an orchestrator asks for although the driver does not offer it, and that has no effect.
pub fn log_without_effect(wire: &[VolumeCapability]) {
    for capability in wire {
        if let Some(AccessType::Mount(mount)) = &capability.access_type
            && !mount.volume_mount_group.is_empty()
        {
            tracing::warn!(
                volume_mount_group = mount.volume_mount_group,
                "volume_mount_group has no effect, and the driver does not offer it: let the orchestrator set the group of the files"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::volume_capability::{AccessMode, BlockVolume, MountVolume};
    use proptest::prelude::*;

    use super::*;

    fn wire(access_type: Option<AccessType>, mode: i32) -> VolumeCapability {
        VolumeCapability { access_type, access_mode: Some(AccessMode { mode }) }
    }

    /// A single writer may have anything, several writers only blocks, nobody anything else.
    #[test]
    fn single_writers_may_have_anything_and_several_writers_only_blocks() {
        let block = || Some(AccessType::Block(BlockVolume {}));
        let mount = || Some(AccessType::Mount(MountVolume::default()));
        let rows = [
            (Mode::SingleNodeWriter, [true, true, true]),
            (Mode::MultiNodeMultiWriter, [false, true, false]),
            (Mode::Unknown, [false; 3]),
            (Mode::SingleNodeReaderOnly, [false; 3]),
            (Mode::MultiNodeReaderOnly, [false; 3]),
            (Mode::MultiNodeSingleWriter, [false; 3]),
            (Mode::SingleNodeSingleWriter, [false; 3]),
            (Mode::SingleNodeMultiWriter, [false; 3]),
        ];
        for (mode, expected) in rows {
            let got = [mount(), block(), None].map(|access| Capability::try_from(&wire(access, mode.into())).is_ok());
            assert_eq!(got, expected, "{mode:?}");
        }
    }

    /// A node-local volume may be one writer's on one node or on several, as a file system or raw, and nothing else.
    #[test]
    fn a_node_local_volume_may_be_written_by_one_node_or_by_several() {
        for mode in 0..9 {
            for access in
                [None, Some(AccessType::Block(BlockVolume {})), Some(AccessType::Mount(MountVolume::default()))]
            {
                let possible = [Mode::SingleNodeWriter.into(), Mode::MultiNodeMultiWriter.into()].contains(&mode);
                assert_eq!(check_node_local(&wire(access, mode)).is_ok(), possible, "{mode}");
            }
        }
    }

    /// A capability list is supported when every element is.
    #[test]
    fn a_capability_list_is_supported_when_every_element_is() {
        let good = wire(Some(AccessType::Block(BlockVolume {})), Mode::SingleNodeWriter.into());
        let bad = wire(None, Mode::SingleNodeReaderOnly.into());
        assert_eq!(parse_all(&[]), Err(CapabilityError::Missing));
        assert!(parse_all(&[good.clone(), good.clone()]).is_ok());
        let error = parse_all(&[good, bad]).expect_err("refused");
        assert!(error.to_string().contains("SINGLE_NODE_READER_ONLY"), "{error}");
    }

    proptest! {
        #[test]
        fn a_mode_of_a_later_csi_is_refused_and_never_mistaken(mode in 8..i32::MAX) {
            let result = Capability::try_from(&wire(None, mode));
            let refused = matches!(result, Err(CapabilityError::Unsupported { .. }));
            prop_assert!(refused, "{mode}");
        }
    }
}

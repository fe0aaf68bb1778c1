//! Requests as typed plans. Each `parse` does all validation of `node.md` in the order of its table; below it no string
//! map is seen. Secrets are never read.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use csi_proto::csi;
use csi_proto::csi::volume_capability::AccessType;
use ebs_mounter::{
    FormatOptions, FormatSpec, FsType, MountOptions, NodePath, OptionsError, Partition, PathError, UnknownFsType,
};
use ebs_types::{DriverName, Gib, IdError, VolumeId};

use crate::capability::{Access, Capability, CapabilityError};
use crate::contract::{ContextError, PublishContext, VolumeContext};
use crate::status::{IntoStatus, Meaning};

/// Prefix of handles of node-local volumes.
const NODE_LOCAL: &str = "local-ebs://";

/// A request that is refused before anything is looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A field that must be there.
    #[error("the request has no {field}")]
    Missing { field: &'static str },
    /// A volume of this node alone.
    #[error("{handle} is a node-local volume, which this version of the driver does not support yet")]
    NodeLocal { handle: String },
    /// An id that names nothing in EC2.
    #[error("the volume does not exist")]
    NoSuchVolume(#[source] IdError),
    #[error("{field}")]
    Path {
        field: &'static str,
        /// What is wrong with it.
        source: PathError,
    },
    /// A path of a volume that is looked up, not made.
    #[error("the volume is not at that path")]
    NoSuchPath(#[source] PathError),
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    #[error("volume_capability has neither block nor mount: set one of them")]
    AccessTypeUnset,
    #[error(transparent)]
    FsType(#[from] UnknownFsType),
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// What the controller, or a person, has written for the node.
    #[error(transparent)]
    Context(#[from] ContextError),
}

impl IntoStatus for RequestError {
    fn meaning(&self) -> Meaning {
        match self {
            Self::NoSuchVolume(_) | Self::NoSuchPath(_) => Meaning::NotFound,
            Self::Missing { .. }
            | Self::NodeLocal { .. }
            | Self::Path { .. }
            | Self::Capability(_)
            | Self::AccessTypeUnset
            | Self::FsType(_)
            | Self::Options(_)
            | Self::Context(_) => Meaning::InvalidArgument,
        }
    }
}

/// NodeStageVolume of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) volume: VolumeId,
    pub(super) staging: NodePath,
    pub(super) options: MountOptions,
    pub(super) partition: Option<Partition>,
    pub(super) format: FormatSpec,
    pub(super) may_format_restored: bool,
    pub(super) attachment: PublishContext,
}

impl Stage {
    /// `None` for a raw block volume: it needs no staging.
    pub(super) fn parse(
        request: &csi::NodeStageVolumeRequest,
        driver: &DriverName,
        legacy_xfs: bool,
    ) -> Result<Option<Self>, RequestError> {
        require(&request.volume_id, "volume_id")?;
        require(&request.staging_target_path, "staging_target_path")?;
        let wire = request.volume_capability.as_ref().ok_or(CapabilityError::Missing)?;
        let capability = Capability::try_from(wire)?;
        let volume = volume(&request.volume_id)?;
        let staging = path(&request.staging_target_path, "staging_target_path")?;
        let partition = VolumeContext::partition(&request.volume_context)?;
        let fs_type = match capability.access {
            Access::Block => return Ok(None),
            Access::Unset => return Err(RequestError::AccessTypeUnset),
            Access::Mount { fs_type } => FsType::parse(&fs_type)?,
        };
        let context = VolumeContext::parse(&request.volume_context, fs_type)?;
        warn_of_attributes_without_effect(&request.volume_context, driver);
        let attachment = PublishContext::parse(&request.publish_context, driver)?;
        let options = mount_options(wire, fs_type)?;
        let may_format_restored = context.format_blank_restore;
        let format = FormatSpec { fs_type, options: FormatOptions { legacy_xfs, ..context.format } };
        Ok(Some(Self { volume, staging, options, partition, format, may_format_restored, attachment }))
    }
}

/// What NodePublishVolume shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PublishWhat {
    /// The staged file system.
    Filesystem {
        staging: NodePath,
        /// Of which type it must be; `None`: the request does not say.
        fs_type: Option<FsType>,
    },
    /// The device.
    Block {
        partition: Option<Partition>,
        /// How large the volume is at least.
        size: Option<Gib>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Publish {
    pub(super) volume: VolumeId,
    pub(super) target: NodePath,
    pub(super) what: PublishWhat,
    pub(super) options: MountOptions,
    pub(super) device: Option<PathBuf>,
}

impl Publish {
    pub(super) fn parse(request: &csi::NodePublishVolumeRequest, driver: &DriverName) -> Result<Self, RequestError> {
        require(&request.volume_id, "volume_id")?;
        require(&request.staging_target_path, "staging_target_path")?;
        require(&request.target_path, "target_path")?;
        let wire = request.volume_capability.as_ref().ok_or(CapabilityError::Missing)?;
        let capability = Capability::try_from(wire)?;
        let volume = volume(&request.volume_id)?;
        let staging = path(&request.staging_target_path, "staging_target_path")?;
        let target = path(&request.target_path, "target_path")?;
        let (what, options, device) = match capability.access {
            Access::Unset => return Err(RequestError::AccessTypeUnset),
            Access::Block => {
                let attachment = PublishContext::parse(&request.publish_context, driver)?;
                let (partition, size) = (VolumeContext::partition(&request.volume_context)?, attachment.size);
                (PublishWhat::Block { partition, size }, MountOptions::default(), attachment.device)
            }
            Access::Mount { fs_type } => {
                let parsed = FsType::parse(&fs_type)?;
                let options = mount_options(wire, parsed)?;
                let fs_type = (!fs_type.is_empty()).then_some(parsed);
                // Not needed for a bind; on Xen it names the disk that must be mounted at the staging path.
                let device = PublishContext::device(&request.publish_context).flatten();
                (PublishWhat::Filesystem { staging, fs_type }, options, device)
            }
        };
        let options = if request.readonly { options.read_only() } else { options };
        Ok(Self { volume, target, what, options, device })
    }
}

/// What a volume handle names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handle {
    /// A volume of EC2's.
    Volume(VolumeId),
    /// A disk of this node alone. The reference mounted such ones, and they can be taken down (`decisions.md` D-3).
    NodeLocal(String),
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(volume) => volume.fmt(f),
            Self::NodeLocal(handle) => f.write_str(handle),
        }
    }
}

impl From<&VolumeId> for Handle {
    fn from(volume: &VolumeId) -> Self {
        Self::Volume(volume.clone())
    }
}

impl From<&Handle> for Handle {
    fn from(handle: &Handle) -> Self {
        handle.clone()
    }
}

/// The target of NodeUnstageVolume or NodeUnpublishVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unmount {
    pub(super) volume: Handle,
    pub(super) path: NodePath,
}

impl Unmount {
    pub(super) fn unstage(request: &csi::NodeUnstageVolumeRequest) -> Result<Self, RequestError> {
        Self::parse(&request.volume_id, &request.staging_target_path, "staging_target_path")
    }

    pub(super) fn unpublish(request: &csi::NodeUnpublishVolumeRequest) -> Result<Self, RequestError> {
        Self::parse(&request.volume_id, &request.target_path, "target_path")
    }

    fn parse(id: &str, text: &str, field: &'static str) -> Result<Self, RequestError> {
        require(id, "volume_id")?;
        require(text, field)?;
        let is_local = id.starts_with(NODE_LOCAL);
        let volume = if is_local { Handle::NodeLocal(id.to_owned()) } else { Handle::Volume(volume(id)?) };
        Ok(Self { volume, path: path(text, field)? })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expand {
    pub(super) volume: VolumeId,
    pub(super) path: NodePath,
    /// `Some(true)` when the request says it is a raw block volume, `None` when it does not say.
    pub(super) is_block: Option<bool>,
}

impl Expand {
    pub(super) fn parse(request: &csi::NodeExpandVolumeRequest) -> Result<Self, RequestError> {
        require(&request.volume_id, "volume_id")?;
        require(&request.volume_path, "volume_path")?;
        let capability = request.volume_capability.as_ref().map(Capability::try_from).transpose()?;
        let is_block = match capability.map(|capability| capability.access) {
            None | Some(Access::Unset) => None,
            Some(access) => Some(access == Access::Block),
        };
        Ok(Self { volume: volume(&request.volume_id)?, path: path_to_find(&request.volume_path)?, is_block })
    }
}

/// A look at one path of a volume: NodeGetVolumeStats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) volume: VolumeId,
    pub(super) path: NodePath,
}

impl Look {
    pub(super) fn stats(request: &csi::NodeGetVolumeStatsRequest) -> Result<Self, RequestError> {
        require(&request.volume_id, "volume_id")?;
        require(&request.volume_path, "volume_path")?;
        Ok(Self { volume: volume(&request.volume_id)?, path: path_to_find(&request.volume_path)? })
    }
}

/// NodeGetVolumeHealth: at a path, or wherever the volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Health {
    pub(super) volume: VolumeId,
    pub(super) path: Option<NodePath>,
}

impl Health {
    pub(super) fn parse(request: &csi::NodeGetVolumeHealthRequest) -> Result<Self, RequestError> {
        require(&request.volume_id, "volume_id")?;
        // Both are optional; a volume that is only staged has no publish path.
        let paths = [&request.volume_publish_path, &request.staging_target_path];
        let path = paths.into_iter().find(|text| !text.is_empty()).map(|text| path_to_find(text)).transpose()?;
        Ok(Self { volume: volume(&request.volume_id)?, path })
    }
}

/// The flags of a mount capability. xfs gets `nouuid`, so that a volume and its clone can be mounted on one node.
fn mount_options(wire: &csi::VolumeCapability, fs_type: FsType) -> Result<MountOptions, RequestError> {
    let flags = match &wire.access_type {
        Some(AccessType::Mount(mount)) => mount.mount_flags.as_slice(),
        _ => &[],
    };
    let options = MountOptions::parse(flags.iter().map(String::as_str))?;
    Ok(if fs_type == FsType::Xfs { options.with_word("nouuid") } else { options })
}

/// People expect such attributes to work, as they do with other drivers; saying so beats a surprise (`node.md` N-4).
fn warn_of_attributes_without_effect(context: &HashMap<String, String>, driver: &DriverName) {
    let prefix = format!("{driver}/");
    for key in context.keys().filter(|key| key.starts_with(&prefix)) {
        tracing::warn!(key, "volume attribute has no effect on the node; set the file system by fsType");
    }
}

fn require(value: &str, field: &'static str) -> Result<(), RequestError> {
    if value.is_empty() { Err(RequestError::Missing { field }) } else { Ok(()) }
}

fn volume(handle: &str) -> Result<VolumeId, RequestError> {
    if handle.starts_with(NODE_LOCAL) {
        return Err(RequestError::NodeLocal { handle: handle.to_owned() });
    }
    VolumeId::from_handle(handle).map_err(RequestError::NoSuchVolume)
}

fn path(text: &str, field: &'static str) -> Result<NodePath, RequestError> {
    NodePath::parse(text).map_err(|source| RequestError::Path { field, source })
}

/// A path where a volume should be already: one that cannot be is one where there is none.
fn path_to_find(text: &str) -> Result<NodePath, RequestError> {
    NodePath::parse(text).map_err(RequestError::NoSuchPath)
}

#[cfg(test)]
mod tests;

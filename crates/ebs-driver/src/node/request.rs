//! Requests as typed plans. Each `parse` validates in the order of the reference driver, and never reads secrets.

use std::collections::HashMap;
use std::path::PathBuf;

use csi_proto::csi;
use csi_proto::csi::volume_capability::AccessType;
use ebs_ec2::{Bytes, DriverName, Gib, IdError, VolumeId};
use ebs_mounter::{
    FormatOptions, FormatSpec, FsType, MountOptions, NodePath, OptionsError, Partition, PathError, UnknownFsType,
};

use crate::capability::{self, Access, Capability, CapabilityError};
use crate::context::{ContextError, PublishContext, VolumeContext};
use crate::status::{IntoStatus, Meaning};

use crate::volume_handle::NODE_LOCAL;
pub use crate::volume_handle::VolumeHandle as Handle;

/// A request that the driver refuses before any I/O.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("the request has no {field}")]
    Missing { field: &'static str },
    #[error(
        "the publish context of {handle} has no {}; publish the volume through the controller of this driver",
        DriverName::LOCAL_VOLUME_KEY
    )]
    NoLocalVolume { handle: String },
    #[error("the volume does not exist")]
    NoSuchVolume(#[source] IdError),
    #[error("{field}")]
    Path { field: &'static str, source: PathError },
    /// The path of an existing volume is invalid, so no volume can be there.
    #[error("the volume is not at that path")]
    NoSuchPath(#[source] PathError),
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    #[error("volume_capability has neither block nor mount; set one of them")]
    AccessTypeUnset,
    #[error(transparent)]
    FsType(#[from] UnknownFsType),
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A value that the controller or an administrator wrote for the node is invalid.
    #[error(transparent)]
    Context(#[from] ContextError),
}

impl IntoStatus for RequestError {
    fn meaning(&self) -> Meaning {
        match self {
            Self::NoSuchVolume(_) | Self::NoSuchPath(_) => Meaning::NotFound,
            Self::Missing { .. }
            | Self::NoLocalVolume { .. }
            | Self::Path { .. }
            | Self::Capability(_)
            | Self::AccessTypeUnset
            | Self::FsType(_)
            | Self::Options(_)
            | Self::Context(_) => Meaning::InvalidArgument,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) handle: Handle,
    pub(super) volume: VolumeId,
    pub(super) staging: NodePath,
    pub(super) options: MountOptions,
    pub(super) partition: Option<Partition>,
    /// The requested file system, or `None` when the request accepts any.
    pub(super) fs_type: Option<FsType>,
    pub(super) format: FormatSpec,
    pub(super) may_format_restored: bool,
    pub(super) attachment: PublishContext,
}

impl Stage {
    /// Parses the request. Returns `None` for a raw block volume, which needs no staging.
    pub(super) fn parse(
        request: &csi::NodeStageVolumeRequest,
        driver: &DriverName,
        legacy_xfs: bool,
    ) -> Result<Option<Self>, RequestError> {
        require(&request.volume_id, "volume_id")?;
        require(&request.staging_target_path, "staging_target_path")?;
        let wire = request.volume_capability.as_ref().ok_or(CapabilityError::Missing)?;
        let capability = capability_of(&request.volume_id, wire)?;
        let handle = handle(&request.volume_id)?;
        let staging = path(&request.staging_target_path, "staging_target_path")?;
        let partition = VolumeContext::partition(&request.volume_context)?;
        let fs_type = match capability.access {
            Access::Block => return Ok(None),
            Access::Unset => return Err(RequestError::AccessTypeUnset),
            Access::Mount { fs_type } => asked_for(&fs_type)?,
        };
        let to_make = fs_type.unwrap_or(FsType::Ext4);
        let context = VolumeContext::parse(&request.volume_context, to_make)?;
        warn_of_attributes_without_effect(&request.volume_context, driver);
        let attachment = PublishContext::parse(&request.publish_context, driver)?;
        let volume = volume(&handle, &request.publish_context)?;
        let options = mount_options(wire)?;
        let may_format_restored = context.format_blank_restore;
        let format = FormatSpec { fs_type: to_make, options: FormatOptions { legacy_xfs, ..context.format } };
        Ok(Some(Self { handle, volume, staging, options, partition, fs_type, format, may_format_restored, attachment }))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PublishWhat {
    Filesystem { staging: NodePath, fs_type: Option<FsType> },
    Block { partition: Option<Partition>, size: Option<Gib> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Publish {
    pub(super) handle: Handle,
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
        let capability = capability_of(&request.volume_id, wire)?;
        let handle = handle(&request.volume_id)?;
        let volume = volume(&handle, &request.publish_context)?;
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
                let (fs_type, options) = (asked_for(&fs_type)?, mount_options(wire)?);
                // A bind mount needs no device name, but on Xen the name identifies the disk that must be staged.
                let device = PublishContext::device(&request.publish_context).flatten();
                (PublishWhat::Filesystem { staging, fs_type }, options, device)
            }
        };
        let read_only = request.readonly || PublishContext::is_read_only(&request.publish_context, driver);
        let options = if read_only { options.read_only() } else { options };
        Ok(Self { handle, volume, target, what, options, device })
    }
}

/// A volume and its path, in NodeUnstageVolume, NodeUnpublishVolume or NodeGetVolumeStats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumePath {
    pub(super) volume: Handle,
    pub(super) path: NodePath,
}

impl VolumePath {
    pub(super) fn unstage(request: &csi::NodeUnstageVolumeRequest) -> Result<Self, RequestError> {
        Self::parse(&request.volume_id, &request.staging_target_path, "staging_target_path")
    }

    pub(super) fn unpublish(request: &csi::NodeUnpublishVolumeRequest) -> Result<Self, RequestError> {
        Self::parse(&request.volume_id, &request.target_path, "target_path")
    }

    pub(super) fn stats(request: &csi::NodeGetVolumeStatsRequest) -> Result<Self, RequestError> {
        require(&request.volume_id, "volume_id")?;
        require(&request.volume_path, "volume_path")?;
        Ok(Self { volume: handle(&request.volume_id)?, path: path_to_find(&request.volume_path)? })
    }

    fn parse(id: &str, text: &str, field: &'static str) -> Result<Self, RequestError> {
        require(id, "volume_id")?;
        require(text, field)?;
        Ok(Self { volume: handle(id)?, path: path(text, field)? })
    }
}

/// A NodeExpandVolume request. For a node-local handle, the mount at the path decides which volume to grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expand {
    pub(super) handle: Handle,
    pub(super) path: NodePath,
    /// `Some(true)` when the request is for a raw block volume, `None` when the request does not specify the access
    /// type.
    pub(super) is_block: Option<bool>,
    pub(super) required: Option<Bytes>,
}

impl Expand {
    pub(super) fn parse(request: &csi::NodeExpandVolumeRequest) -> Result<Self, RequestError> {
        require(&request.volume_id, "volume_id")?;
        require(&request.volume_path, "volume_path")?;
        let capability = request.volume_capability.as_ref();
        let capability = capability.map(|wire| capability_of(&request.volume_id, wire)).transpose()?;
        let handle = handle(&request.volume_id)?;
        let is_block = match capability.map(|capability| capability.access) {
            None | Some(Access::Unset) => None,
            Some(access) => Some(access == Access::Block),
        };
        let required = request.capacity_range.and_then(|range| u64::try_from(range.required_bytes).ok());
        let required = required.filter(|bytes| *bytes > 0).map(Bytes);
        Ok(Self { handle, path: path_to_find(&request.volume_path)?, is_block, required })
    }
}

/// A NodeGetVolumeHealth request, about the mount at a path or about all mounts of the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Health {
    pub(super) volume: Handle,
    pub(super) path: Option<NodePath>,
}

impl Health {
    pub(super) fn parse(request: &csi::NodeGetVolumeHealthRequest) -> Result<Self, RequestError> {
        require(&request.volume_id, "volume_id")?;
        // Both paths are optional. A volume that is only staged has no publish path.
        let paths = [&request.volume_publish_path, &request.staging_target_path];
        let path = paths.into_iter().find(|text| !text.is_empty()).map(|text| path_to_find(text)).transpose()?;
        Ok(Self { volume: handle(&request.volume_id)?, path })
    }
}

fn asked_for(fs_type: &str) -> Result<Option<FsType>, UnknownFsType> {
    if fs_type.is_empty() { Ok(None) } else { FsType::parse(fs_type).map(Some) }
}

fn mount_options(wire: &csi::VolumeCapability) -> Result<MountOptions, RequestError> {
    let flags = match &wire.access_type {
        Some(AccessType::Mount(mount)) => mount.mount_flags.as_slice(),
        _ => &[],
    };
    Ok(MountOptions::parse(flags.iter().map(String::as_str))?)
}

/// Warns of volume attributes that have no effect. Other drivers support such attributes, so users expect them to work.
fn warn_of_attributes_without_effect(context: &HashMap<String, String>, driver: &DriverName) {
    let prefix = format!("{driver}/");
    for key in context.keys().filter(|key| key.starts_with(&prefix)) {
        tracing::warn!(key, "ignoring volume attribute: the file system is set by fsType");
    }
}

fn require(value: &str, field: &'static str) -> Result<(), RequestError> {
    if value.is_empty() { Err(RequestError::Missing { field }) } else { Ok(()) }
}

fn handle(text: &str) -> Result<Handle, RequestError> {
    Handle::parse(text).map_err(RequestError::NoSuchVolume)
}

fn capability_of(handle: &str, wire: &csi::VolumeCapability) -> Result<Capability, CapabilityError> {
    if handle.starts_with(NODE_LOCAL) { capability::of_node_local(wire) } else { Capability::try_from(wire) }
}

/// Returns the volume that a handle names on this node. The controller's publish context resolves a node-local handle.
fn volume(handle: &Handle, publish_context: &HashMap<String, String>) -> Result<VolumeId, RequestError> {
    match handle {
        Handle::Volume(volume) => Ok(volume.clone()),
        Handle::NodeLocal(handle) => PublishContext::local_volume(publish_context)?
            .ok_or_else(|| RequestError::NoLocalVolume { handle: handle.clone() }),
    }
}

fn path(text: &str, field: &'static str) -> Result<NodePath, RequestError> {
    NodePath::parse(text).map_err(|source| RequestError::Path { field, source })
}

/// Parses a path at which a volume should be mounted. No volume can be at an invalid path.
fn path_to_find(text: &str) -> Result<NodePath, RequestError> {
    NodePath::parse(text).map_err(RequestError::NoSuchPath)
}

#[cfg(test)]
mod tests;

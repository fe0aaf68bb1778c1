//! Parses requests into typed plans, so that later steps use no string maps. Each `parse` does all validation, in the
//! same order as the node service for Linux. Secrets are never read.

use csi_proto::csi;
use csi_proto::csi::volume_capability::AccessType;
use ebs_driver::capability::{Access, Capability, CapabilityError};
use ebs_driver::context::{ContextError, FormatKey, PublishContext, VolumeContext};
use ebs_driver::status::{IntoStatus, Meaning};
use ebs_ec2::{DriverName, IdError, VolumeId};
use winstorage::types::WinPath;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("missing field {field}")]
    Missing { field: &'static str },
    #[error("the volume does not exist")]
    NoSuchVolume(#[source] IdError),
    #[error("{field} {path:?} is not an absolute path")]
    Path { field: &'static str, path: String },
    #[error("the volume is not at {path:?}: not an absolute path")]
    NoSuchPath { path: String },
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    #[error("volume_capability.mount is missing; set it")]
    AccessTypeUnset,
    #[error("raw block volumes are unsupported on Windows; use volumeMode Filesystem")]
    Block,
    #[error("file system {0:?} is unsupported on Windows; use ntfs, or leave it empty")]
    FileSystem(String),
    #[error(
        "volume context has {0}, which applies only to Linux file systems; remove it, because Windows formats volumes as NTFS"
    )]
    FormatOption(FormatKey),
    #[error(transparent)]
    Context(#[from] ContextError),
}

impl IntoStatus for RequestError {
    fn meaning(&self) -> Meaning {
        match self {
            Self::NoSuchVolume(_) | Self::NoSuchPath { .. } => Meaning::NotFound,
            Self::Missing { .. }
            | Self::Path { .. }
            | Self::Capability(_)
            | Self::AccessTypeUnset
            | Self::Block
            | Self::FileSystem(_)
            | Self::FormatOption(_)
            | Self::Context(_) => Meaning::InvalidArgument,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) volume: VolumeId,
    pub(crate) staging: WinPath,
    pub(crate) may_format_restored: bool,
    pub(crate) attachment: PublishContext,
}

impl Stage {
    pub(crate) fn parse(request: &csi::NodeStageVolumeRequest, driver: &DriverName) -> Result<Self, RequestError> {
        require(&request.volume_id, "volume_id")?;
        require(&request.staging_target_path, "staging_target_path")?;
        let fs_type = mounted(request.volume_capability.as_ref())?;
        let volume = volume(&request.volume_id)?;
        let staging = path(&request.staging_target_path, "staging_target_path")?;
        file_system(&fs_type, &volume)?;
        let options = FormatKey::ALL.into_iter().find(|key| request.volume_context.contains_key(key.as_str()));
        if let Some(option) = options {
            return Err(RequestError::FormatOption(option));
        }
        let may_format_restored = VolumeContext::formats_blank_restores(&request.volume_context);
        let attachment = PublishContext::parse(&request.publish_context, driver)?;
        warn_of_flags(request.volume_capability.as_ref(), &volume, false);
        Ok(Self { volume, staging, may_format_restored, attachment })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Publish {
    pub(crate) volume: VolumeId,
    pub(crate) staging: WinPath,
    pub(crate) target: WinPath,
    pub(crate) device: Option<String>,
}

impl Publish {
    pub(crate) fn parse(request: &csi::NodePublishVolumeRequest) -> Result<Self, RequestError> {
        require(&request.volume_id, "volume_id")?;
        require(&request.staging_target_path, "staging_target_path")?;
        require(&request.target_path, "target_path")?;
        let fs_type = mounted(request.volume_capability.as_ref())?;
        let volume = volume(&request.volume_id)?;
        let staging = path(&request.staging_target_path, "staging_target_path")?;
        let target = path(&request.target_path, "target_path")?;
        file_system(&fs_type, &volume)?;
        warn_of_flags(request.volume_capability.as_ref(), &volume, request.readonly);
        let device = PublishContext::device(&request.publish_context).flatten();
        Ok(Self { volume, staging, target, device: device.map(|device| device.display().to_string()) })
    }
}

/// The volume and path of NodeUnstageVolume, NodeUnpublishVolume, NodeExpandVolume or NodeGetVolumeStats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) volume: VolumeId,
    pub(crate) path: WinPath,
}

impl At {
    pub(crate) fn unstage(request: &csi::NodeUnstageVolumeRequest) -> Result<Self, RequestError> {
        Self::to_remove(&request.volume_id, &request.staging_target_path, "staging_target_path")
    }

    pub(crate) fn unpublish(request: &csi::NodeUnpublishVolumeRequest) -> Result<Self, RequestError> {
        Self::to_remove(&request.volume_id, &request.target_path, "target_path")
    }

    pub(crate) fn stats(request: &csi::NodeGetVolumeStatsRequest) -> Result<Self, RequestError> {
        Self::to_find(&request.volume_id, &request.volume_path)
    }

    fn to_remove(id: &str, text: &str, field: &'static str) -> Result<Self, RequestError> {
        require(id, "volume_id")?;
        require(text, field)?;
        Ok(Self { volume: volume(id)?, path: path(text, field)? })
    }

    fn to_find(id: &str, text: &str) -> Result<Self, RequestError> {
        require(id, "volume_id")?;
        require(text, "volume_path")?;
        let volume = volume(id)?;
        let path = WinPath::normalise(text).ok_or_else(|| RequestError::NoSuchPath { path: text.to_owned() })?;
        Ok(Self { volume, path })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expand {
    pub(crate) at: At,
    pub(crate) required: u64,
}

impl Expand {
    /// Parses the request. Returns `None` for a raw block volume, which has no file system to grow.
    pub(crate) fn parse(request: &csi::NodeExpandVolumeRequest) -> Result<Option<Self>, RequestError> {
        let at = At::to_find(&request.volume_id, &request.volume_path)?;
        let capability = request.volume_capability.as_ref().map(Capability::try_from).transpose()?;
        if capability.is_some_and(|capability| capability.access == Access::Block) {
            return Ok(None);
        }
        let required = request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
        Ok(Some(Self { at, required: u64::try_from(required).unwrap_or(0) }))
    }
}

fn mounted(wire: Option<&csi::VolumeCapability>) -> Result<String, RequestError> {
    let wire = wire.ok_or(CapabilityError::Missing)?;
    match Capability::try_from(wire)?.access {
        Access::Mount { fs_type } => Ok(fs_type),
        Access::Block => Err(RequestError::Block),
        Access::Unset => Err(RequestError::AccessTypeUnset),
    }
}

/// Accepts NTFS. Also accepts Linux's ext2, ext3 and ext4, because a request often names one of them if its storage
/// class names no file system.
fn file_system(asked: &str, volume: &VolumeId) -> Result<(), RequestError> {
    match asked.to_ascii_lowercase().as_str() {
        "" | "ntfs" => Ok(()),
        "ext2" | "ext3" | "ext4" => {
            tracing::warn!(%volume, asked, "using NTFS instead of a Linux file system");
            Ok(())
        }
        _ => Err(RequestError::FileSystem(asked.to_owned())),
    }
}

/// Logs a warning about mount flags, which have no effect. The kubelet itself makes a container's mount read-only, and
/// other flags have no meaning for NTFS behind a link.
fn warn_of_flags(wire: Option<&csi::VolumeCapability>, volume: &VolumeId, read_only: bool) {
    let flags = match wire.and_then(|wire| wire.access_type.as_ref()) {
        Some(AccessType::Mount(mount)) => mount.mount_flags.join(","),
        _ => String::new(),
    };
    if !flags.is_empty() || read_only {
        tracing::warn!(%volume, flags, read_only, "ignoring mount flags and read-only, which have no effect on Windows");
    }
}

fn require(value: &str, field: &'static str) -> Result<(), RequestError> {
    if value.is_empty() { Err(RequestError::Missing { field }) } else { Ok(()) }
}

fn volume(text: &str) -> Result<VolumeId, RequestError> {
    VolumeId::from_handle(text).map_err(RequestError::NoSuchVolume)
}

fn path(text: &str, field: &'static str) -> Result<WinPath, RequestError> {
    WinPath::normalise(text).ok_or_else(|| RequestError::Path { field, path: text.to_owned() })
}

pub(crate) fn device(attachment: &PublishContext) -> Option<String> {
    attachment.device.as_ref().map(|device| device.display().to_string())
}

/// Returns the path in the form that logs and keys use. Windows paths that differ only in case are equal.
pub(crate) fn key_of(path: &WinPath) -> std::path::PathBuf {
    path.to_string().to_lowercase().into()
}

//! Errors of the operations. Clients parse some of the texts: windows.md lists them, and tests compare them.

use crate::host::{Answer, HostError, OfflineReason};
use crate::locate::SearchError;
use crate::path::PathError;
use crate::service::DiskBusy;
use crate::types::{DiskNumber, NameError, ServiceName, VolumeGuid, VolumeIdError};

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// A path that clients may not name.
    #[error(transparent)]
    Path(#[from] PathError),
    /// An unexpected entry on a path.
    #[error(transparent)]
    Way(#[from] WayError),
    /// A field that the operation needs and that the client left out.
    #[error("{}", .0.text())]
    Empty(Empty),
    /// An invalid volume id.
    #[error(transparent)]
    VolumeId(#[from] VolumeIdError),
    /// A name that violates its grammar.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No disk has this number.
    #[error("disk {0} not found")]
    DiskNotFound(DiskNumber),
    /// No volume has this id.
    #[error("volume {0} not found")]
    VolumeNotFound(VolumeGuid),
    /// The search for the disk of an EBS volume failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// No disk has this page 83 identifier.
    #[error("could not find disk with Page83 ID {0}")]
    NoPage83(String),
    /// Windows created a partition but does not list it.
    #[error("no partition found on disk {0} after one was created")]
    NoPartition(DiskNumber),
    /// A volume without a partition has no disk.
    #[error("volume {0} has no partition on a disk")]
    NoDisk(VolumeGuid),
    /// A volume with several partitions, so that its disk is ambiguous.
    #[error("volume {volume} spans {count} partitions, on more than one disk")]
    Spanned {
        /// The volume.
        volume: VolumeGuid,
        /// How many partitions it has.
        count: usize,
    },
    /// A size below zero.
    #[error("invalid negative size {size} for volume ({volume})")]
    NegativeSize {
        /// The size in bytes that the client sent.
        size: i64,
        /// The volume as the client wrote it.
        volume: String,
    },
    /// A disk that was to be partitioned already has contents.
    #[error("disk {0} is in use: it has partitions")]
    InUse(DiskNumber),
    /// A disk or volume of Windows itself.
    #[error("{operation} refused: {object} {reason}")]
    SystemStorage {
        /// The operation.
        operation: &'static str,
        /// A disk or a volume.
        object: String,
        /// Why it belongs to Windows.
        reason: &'static str,
    },
    /// The target of a write is not proven blank.
    #[error("{operation} refused: {object} is not blank: {contents}")]
    NotBlank {
        /// The operation.
        operation: &'static str,
        /// A disk or a volume.
        object: String,
        /// The contents found.
        contents: String,
    },
    /// The disk is offline, so the driver neither reads its contents nor partitions it.
    #[error("disk {0} is offline; bring it online, then retry")]
    DiskOffline(DiskNumber),
    /// Windows assigned the number to another disk during the operation.
    #[error("{operation} refused: disk {disk} was replaced by another disk during the call; retry")]
    DiskReplaced {
        /// The operation.
        operation: &'static str,
        /// The number.
        disk: DiskNumber,
    },
    /// Another operation is changing the disk.
    #[error("{0}; nothing was done, retry later")]
    DiskBusy(DiskBusy),
    /// Windows keeps the disk offline.
    #[error("bring disk {disk} online{}", .reason.map_or_else(String::new, |reason| format!(": Windows keeps it offline because {reason}")))]
    NotOnline {
        /// The disk.
        disk: DiskNumber,
        /// Windows' reason before the attempt.
        reason: Option<OfflineReason>,
        /// The error of the attempt.
        #[source]
        cause: HostError,
    },
    /// The volume already has a file system.
    #[error("FormatVolume refused: volume {0} is already formatted, and formatting destroys its data")]
    AlreadyFormatted(VolumeGuid),
    /// A directory that is not a mount point. Drivers of the PowerShell era match this text.
    #[error(
        "error getting the volume of {path}: not a mounted folder. cmd: (Get-Item -Path $Env:mountpath).Target, output: , error: <nil>"
    )]
    NotMounted {
        /// The directory.
        path: String,
    },
    /// The path does not exist. Drivers of the PowerShell era match this text.
    #[error("cannot find path '{path}' because it does not exist")]
    Missing {
        /// The missing object.
        path: String,
    },
    /// A mount point of a different volume than the requested one.
    #[error("{path} is a mount point of another volume, {mounted}, not of {wanted}")]
    MountedElsewhere {
        /// The mount point.
        path: String,
        /// The mounted volume.
        mounted: VolumeGuid,
        /// The volume to mount or unmount.
        wanted: VolumeGuid,
    },
    /// The lookup of the closest volume failed. Clients know the text with its cause.
    #[error("error getting the closest volume for the path={path}, err={}", .cause.text())]
    Closest {
        /// As the client wrote it.
        path: String,
        /// The cause.
        cause: Box<StorageError>,
    },
    /// A cycle of links.
    #[error("failed to find the closest volume for path={0}")]
    NoClosest(String),
    /// A share path without host or share.
    #[error("remote path ({0}) is invalid")]
    RemotePath(String),
    /// The share is mapped, but the link to it could not be created.
    #[error("creating link {local} to {remote} failed with error: {}", .cause.text())]
    ShareLink {
        /// The link.
        local: String,
        /// The share's path.
        remote: String,
        /// The cause.
        cause: Box<StorageError>,
    },
    /// An unknown authentication type.
    #[error("invalid authentication type authType={0}")]
    Authentication(i32),
    /// A secret of a length that initiators reject.
    #[error("invalid CHAP secret: {0} bytes; use 12 to 16, or 1 to 16 with IPsec")]
    ChapSecret(usize),
    /// The portal does not offer this target.
    #[error("target {iqn} not found at portal {portal}")]
    TargetNotFound {
        /// The target.
        iqn: String,
        /// The portal.
        portal: String,
    },
    /// A portal that is not registered on the machine.
    #[error("target portal {0} not found")]
    PortalNotFound(String),
    /// The service does not exist, or the query for it failed.
    #[error("failed to get service {name}. error: {}", .cause.as_ref().map_or_else(|| "not found".to_owned(), ToString::to_string))]
    Service {
        /// Its name.
        name: ServiceName,
        /// The error of the query; `None` if the service does not exist.
        cause: Option<HostError>,
    },
    /// Windows refused to start or stop it.
    #[error("{operation} of service {name} failed: result {result}{}", dependents_hint(*.result))]
    ServiceRefused {
        /// `StartService` or `StopService`.
        operation: &'static str,
        /// Its name.
        name: ServiceName,
        /// Windows' return code.
        result: u32,
    },
    /// The service did not reach the state in time.
    #[error("timed out waiting for service {name} {to}")]
    ServiceTimeout {
        /// Its name.
        name: ServiceName,
        /// `to become running` or `to stop`.
        to: &'static str,
    },
    /// Windows returned a value that csi-proxy does not know.
    #[error("service {name} has unknown {what} {value:?}")]
    ServiceWord {
        /// Its name.
        name: ServiceName,
        /// `state` or `start mode`.
        what: &'static str,
        /// Windows' value.
        value: String,
    },
    /// Windows rejected a step.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// An unexpected entry on a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WayError {
    /// A link above the last component.
    #[error("{path}: component {component} is {what}, which is not followed")]
    Link {
        /// The whole path.
        path: String,
        /// The component.
        component: String,
        /// A symbolic link, a junction, …
        what: &'static str,
    },
    /// A link that leads out of the working directories, or whose chain of links is too long.
    #[error("{path}: target {target:?} {reason}")]
    Target {
        /// The link.
        path: String,
        /// The target of the link.
        target: String,
        /// Why it is not followed.
        reason: &'static str,
    },
    /// An operation on the working directory itself, which belongs to the administrator.
    #[error("{operation} refused: {path} is itself a working directory")]
    WorkingDirectory {
        /// The operation.
        operation: &'static str,
        /// The directory.
        path: String,
    },
    /// A file where a directory is needed.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// The path of the file.
        path: String,
    },
    /// The path already exists.
    #[error("{path} already exists")]
    Exists {
        /// The path.
        path: String,
    },
    /// A directory that is not empty.
    #[error("{path} is not empty")]
    NotEmpty {
        /// The directory.
        path: String,
    },
    /// Directories nested deeper than any plugin's.
    #[error("{path} is nested deeper than {limit} directories")]
    TooDeep {
        /// The topmost directory.
        path: String,
        /// The limit of the depth.
        limit: usize,
    },
}

/// Required fields, each with the error text of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Empty {
    /// The volume of MountVolume.
    MountVolumeId,
    /// The path of MountVolume.
    MountTargetPath,
    /// The volume of every other operation.
    VolumeId,
    /// The path of UnmountVolume.
    UnmountTargetPath,
    /// The path whose volume is requested.
    TargetPath,
    /// The share of an SMB mapping.
    RemotePath,
}

impl Empty {
    fn text(self) -> &'static str {
        match self {
            Self::MountVolumeId => "MountVolumeRequest.VolumeId is empty",
            Self::MountTargetPath => "MountVolumeRequest.TargetPath is empty",
            Self::VolumeId => "volume id empty",
            Self::UnmountTargetPath => "target path empty",
            Self::TargetPath => "target path is empty",
            Self::RemotePath => "remote path is empty",
        }
    }
}

impl StorageError {
    /// Returns the error and its causes in one line, as clients receive it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }

    /// Returns Windows' own error code, if a step of Windows failed. Clients can compare it.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Host(error) | Self::NotOnline { cause: error, .. } => Some(&error.answer),
            Self::Closest { cause, .. } | Self::ShareLink { cause, .. } => cause.answer(),
            Self::Service { cause, .. } => cause.as_ref().map(|error| &error.answer),
            _ => None,
        }
    }

    /// Returns whether the arguments were rejected before any step of the host.
    #[must_use]
    pub fn is_refused_argument(&self) -> bool {
        matches!(
            self,
            Self::Path(_)
                | Self::Empty(_)
                | Self::VolumeId(_)
                | Self::Name(_)
                | Self::NegativeSize { .. }
                | Self::RemotePath(_)
                | Self::Authentication(_)
                | Self::ChapSecret(_)
        )
    }
}

fn dependents_hint(result: u32) -> &'static str {
    if result == crate::host::result::DEPENDENTS_RUNNING { " (dependent services are running)" } else { "" }
}

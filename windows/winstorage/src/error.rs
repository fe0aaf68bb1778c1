//! Errors of the operations. Clients parse some of the error texts, which windows.md lists and tests compare.

use crate::host::{Answer, HostError, OfflineReason};
use crate::locate::SearchError;
use crate::path::PathError;
use crate::service::DiskBusy;
use crate::types::{DiskNumber, NameError, ServiceName, VolumeGuid, VolumeIdError};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Way(#[from] WayError),
    #[error("{0}")]
    Empty(&'static str),
    #[error(transparent)]
    VolumeId(#[from] VolumeIdError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("disk {0} not found")]
    DiskNotFound(DiskNumber),
    #[error("volume {0} not found")]
    VolumeNotFound(VolumeGuid),
    #[error(transparent)]
    Search(#[from] SearchError),
    #[error("could not find disk with Page83 ID {0}")]
    NoPage83(String),
    #[error("no partition found on disk {0} after one was created")]
    NoPartition(DiskNumber),
    #[error("volume {0} has no partition on a disk")]
    NoDisk(VolumeGuid),
    #[error("volume {volume} spans {count} partitions, on more than one disk")]
    Spanned { volume: VolumeGuid, count: usize },
    #[error("invalid negative size {size} for volume ({volume})")]
    NegativeSize { size: i64, volume: String },
    #[error("disk {0} is in use: it has partitions")]
    InUse(DiskNumber),
    #[error("{operation} refused: {object} {reason}")]
    SystemStorage { operation: &'static str, object: String, reason: &'static str },
    #[error("{operation} refused: {object} is not blank: {contents}")]
    NotBlank { operation: &'static str, object: String, contents: String },
    #[error("disk {0} is offline; bring it online, then retry")]
    DiskOffline(DiskNumber),
    #[error("{operation} refused: disk {disk} was replaced by another disk during the call; retry")]
    DiskReplaced { operation: &'static str, disk: DiskNumber },
    #[error("{0}; nothing was done; retry later")]
    DiskBusy(DiskBusy),
    #[error("bring disk {disk} online{}", .reason.map_or_else(String::new, |reason| format!(": Windows keeps it offline because {reason}")))]
    NotOnline {
        disk: DiskNumber,
        reason: Option<OfflineReason>,
        #[source]
        cause: HostError,
    },
    #[error("FormatVolume refused: volume {0} is already formatted, and formatting destroys its data")]
    AlreadyFormatted(VolumeGuid),
    /// The directory is not a mount point. Drivers of the PowerShell era compare this text.
    #[error(
        "error getting the volume of {path}: not a mounted folder. cmd: (Get-Item -Path $Env:mountpath).Target, output: , error: <nil>"
    )]
    NotMounted { path: String },
    /// The path does not exist. Drivers of the PowerShell era compare this text.
    #[error("cannot find path '{path}' because it does not exist")]
    Missing { path: String },
    #[error("{path} is a mount point of another volume, {mounted}, not of {wanted}")]
    MountedElsewhere { path: String, mounted: VolumeGuid, wanted: VolumeGuid },
    /// The search for the closest volume failed. Clients expect exactly this text, including the cause.
    #[error("error getting the closest volume for the path={path}, err={}", .cause.text())]
    Closest { path: String, cause: Box<StorageError> },
    #[error("failed to find the closest volume for path={0}")]
    NoClosest(String),
    #[error("remote path ({0}) is invalid")]
    RemotePath(String),
    #[error("creating link {local} to {remote} failed with error: {}", .cause.text())]
    ShareLink { local: String, remote: String, cause: Box<StorageError> },
    #[error("invalid authentication type authType={0}")]
    Authentication(i32),
    #[error("invalid CHAP secret: {0} bytes; use 12 to 16, or 1 to 16 with IPsec")]
    ChapSecret(usize),
    #[error("target {iqn} not found at portal {portal}")]
    TargetNotFound { iqn: String, portal: String },
    #[error("target portal {0} not found")]
    PortalNotFound(String),
    #[error("failed to get service {name}. error: {}", .cause.as_ref().map_or_else(|| "not found".to_owned(), ToString::to_string))]
    Service {
        name: ServiceName,
        /// The error of the query, or `None` if the service does not exist.
        cause: Option<HostError>,
    },
    #[error("{operation} of service {name} failed: result {result}{}", dependents_hint(*.result))]
    ServiceRefused { operation: &'static str, name: ServiceName, result: u32 },
    #[error("timed out waiting for service {name} {to}")]
    ServiceTimeout { name: ServiceName, to: &'static str },
    #[error("service {name} has unknown {what} {value:?}")]
    ServiceWord { name: ServiceName, what: &'static str, value: String },
    #[error(transparent)]
    Host(#[from] HostError),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WayError {
    #[error("{path}: component {component} is {what}, which is not followed")]
    Link { path: String, component: String, what: &'static str },
    #[error("{path}: target {target:?} {reason}")]
    Target { path: String, target: String, reason: &'static str },
    #[error("{operation} refused: {path} is itself a working directory")]
    WorkingDirectory { operation: &'static str, path: String },
    #[error("{path} is not a directory")]
    NotADirectory { path: String },
    #[error("{path} already exists")]
    Exists { path: String },
    #[error("{path} is not empty")]
    NotEmpty { path: String },
    #[error("{path} is nested deeper than {limit} directories")]
    TooDeep { path: String, limit: usize },
}

impl StorageError {
    /// Returns the error and its causes in one line, as clients receive them.
    pub fn text(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }

    /// Returns Windows' own error code, if a step failed in Windows. Clients can compare it.
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Host(error) | Self::NotOnline { cause: error, .. } => Some(&error.answer),
            Self::Closest { cause, .. } | Self::ShareLink { cause, .. } => cause.answer(),
            Self::Service { cause, .. } => cause.as_ref().map(|error| &error.answer),
            _ => None,
        }
    }

    /// Returns whether the operation rejected its arguments before any step of the host.
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

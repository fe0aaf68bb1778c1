//! What an operation ends with when it does not succeed. Some texts are read by machines: they stand in windows.md, and tests hold
//! them.

use crate::host::{Answer, HostError, OfflineReason};
use crate::locate::SearchError;
use crate::path::PathError;
use crate::service::DiskBusy;
use crate::types::{DiskNumber, NameError, ServiceName, VolumeGuid, VolumeIdError};

/// Why an operation was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// A path that clients may not name.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Something on the way of a path that must not be there.
    #[error(transparent)]
    Way(#[from] WayError),
    /// A field that the operation needs and that the client left out.
    #[error("{}", .0.text())]
    Empty(Empty),
    /// A volume id that is none.
    #[error(transparent)]
    VolumeId(#[from] VolumeIdError),
    /// A name outside of its grammar.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No disk has this number.
    #[error("disk {0} not found")]
    DiskNotFound(DiskNumber),
    /// No volume has this id.
    #[error("volume {0} not found")]
    VolumeNotFound(VolumeGuid),
    /// The disk of an EBS volume is not told.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// No disk names itself so.
    #[error("could not find disk with Page83 ID {0}")]
    NoPage83(String),
    /// Windows made a partition and lists none.
    #[error("no partition found on disk {0} after one was created")]
    NoPartition(DiskNumber),
    /// A volume without a partition has no disk.
    #[error("volume {0} lies on no partition of a disk")]
    NoDisk(VolumeGuid),
    /// A volume of which no single disk can be told.
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
        /// Bytes, as the client wrote them.
        size: i64,
        /// As the client wrote it.
        volume: String,
    },
    /// A disk that was to be used up, and that holds something.
    #[error("disk {0} has partitions: it is in use")]
    InUse(DiskNumber),
    /// What Windows itself lives on.
    #[error("{operation} refused: {object} {reason}")]
    SystemStorage {
        /// What was asked for.
        operation: &'static str,
        /// A disk or a volume.
        object: String,
        /// Why it is Windows' own.
        reason: &'static str,
    },
    /// What was to be written over was not proven blank.
    #[error("{operation} refused: {object} is not blank: {contents}")]
    NotBlank {
        /// What was asked for.
        operation: &'static str,
        /// A disk or a volume.
        object: String,
        /// What was found there.
        contents: String,
    },
    /// A disk that is offline is neither read for its contents nor partitioned.
    #[error("disk {0} is offline: bring it online, then call again")]
    DiskOffline(DiskNumber),
    /// The number was given to another disk while the disk was looked at.
    #[error("{operation} refused: disk {disk} was replaced by another disk during the call; call again")]
    DiskReplaced {
        /// What was asked for.
        operation: &'static str,
        /// The number.
        disk: DiskNumber,
    },
    /// Another operation changes the disk.
    #[error("{0}: nothing was done, call again later")]
    DiskBusy(DiskBusy),
    /// Windows keeps the disk offline.
    #[error("bring disk {disk} online{}", .reason.map_or_else(String::new, |reason| format!(": Windows keeps it offline because {reason}")))]
    NotOnline {
        /// The disk.
        disk: DiskNumber,
        /// Windows' reason, as it was before the attempt.
        reason: Option<OfflineReason>,
        /// What the attempt failed with.
        #[source]
        cause: HostError,
    },
    /// There is a file system already.
    #[error("FormatVolume refused: volume {0} is formatted already, and formatting destroys what it holds")]
    AlreadyFormatted(VolumeGuid),
    /// A directory that is there and no mount point. Drivers of the PowerShell era look for this text.
    #[error(
        "error getting the volume of {path}: not a mounted folder. cmd: (Get-Item -Path $Env:mountpath).Target, output: , error: <nil>"
    )]
    NotMounted {
        /// The directory.
        path: String,
    },
    /// Nothing is there. Drivers of the PowerShell era look for this text.
    #[error("cannot find path '{path}' because it does not exist")]
    Missing {
        /// What was looked for.
        path: String,
    },
    /// A mount point of another volume than the one asked for.
    #[error("{path} is a mount point of another volume, {mounted}, not of {wanted}")]
    MountedElsewhere {
        /// The mount point.
        path: String,
        /// What is mounted.
        mounted: VolumeGuid,
        /// What was to be mounted or unmounted.
        wanted: VolumeGuid,
    },
    /// A look-up of the closest volume that failed; the cause is part of the text that clients know.
    #[error("error getting the closest volume for the path={path}, err={}", .cause.text())]
    Closest {
        /// As the client wrote it.
        path: String,
        /// What happened on the way.
        cause: Box<StorageError>,
    },
    /// A path that leads from link to link without an end.
    #[error("failed to find the closest volume for path={0}")]
    NoClosest(String),
    /// Without host and share.
    #[error("remote path ({0}) is invalid")]
    RemotePath(String),
    /// The share is mapped, but its link could not be made.
    #[error("creating link {local} to {remote} failed with error: {}", .cause.text())]
    ShareLink {
        /// The link.
        local: String,
        /// The share's path.
        remote: String,
        /// Why.
        cause: Box<StorageError>,
    },
    /// A number that names no way to log in.
    #[error("invalid authentication type authType={0}")]
    Authentication(i32),
    /// A secret that initiators do not take.
    #[error("the CHAP secret has {0} bytes: 12 to 16 are expected, 1 to 16 with IPsec")]
    ChapSecret(usize),
    /// The portal does not offer this target.
    #[error("target {iqn} not found at portal {portal}")]
    TargetNotFound {
        /// The target.
        iqn: String,
        /// The portal.
        portal: String,
    },
    /// A portal that the machine does not know.
    #[error("target portal {0} not found")]
    PortalNotFound(String),
    /// Windows has no such service, or would not tell.
    #[error("failed to get service {name}. error: {}", .cause.as_ref().map_or_else(|| "not found".to_owned(), ToString::to_string))]
    Service {
        /// Its name.
        name: ServiceName,
        /// What the query answered; none where there is no such service.
        cause: Option<HostError>,
    },
    /// Windows refused to start or stop it.
    #[error("{operation} of service {name} failed: result {result}{}", dependents_hint(*.result))]
    ServiceRefused {
        /// `StartService` or `StopService`.
        operation: &'static str,
        /// Its name.
        name: ServiceName,
        /// Windows' answer.
        result: u32,
    },
    /// It did not get there in time.
    #[error("timed out waiting for service {name} {to}")]
    ServiceTimeout {
        /// Its name.
        name: ServiceName,
        /// `to become running` or `to stop`.
        to: &'static str,
    },
    /// Windows says something that these programs do not know.
    #[error("service {name} has the unknown {what} {value:?}")]
    ServiceWord {
        /// Its name.
        name: ServiceName,
        /// `state` or `start mode`.
        what: &'static str,
        /// Windows' word.
        value: String,
    },
    /// A step that Windows refused.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// What stands in the way of a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WayError {
    /// A link above the last component leads who knows where.
    #[error("{path}: its component {component} is {what}, which is not followed")]
    Link {
        /// The whole path.
        path: String,
        /// The component.
        component: String,
        /// A symbolic link, a junction, …
        what: &'static str,
    },
    /// A link that leads out of the working directories, or to another link again and again.
    #[error("{path}: its target {target:?} {reason}")]
    Target {
        /// The link.
        path: String,
        /// Where it leads.
        target: String,
        /// Why it is not followed.
        reason: &'static str,
    },
    /// The working directory itself is the administrator's.
    #[error("{operation} refused: {path} is a working directory itself")]
    WorkingDirectory {
        /// What was asked for.
        operation: &'static str,
        /// The directory.
        path: String,
    },
    /// A file where a directory is needed.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// What is there.
        path: String,
    },
    /// Something is there already.
    #[error("{path} exists already")]
    Exists {
        /// What is there.
        path: String,
    },
    /// A directory that holds something.
    #[error("{path} is not empty")]
    NotEmpty {
        /// The directory.
        path: String,
    },
    /// Directories nested so deep that they are no plugin's.
    #[error("{path} is nested deeper than {limit} directories")]
    TooDeep {
        /// Where it began.
        path: String,
        /// How deep it was looked at.
        limit: usize,
    },
}

/// Fields that may not be empty, each with the text that the reference answers.
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
    /// The path whose volume is looked for.
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
    /// The error and its causes in one line, as it goes to a client.
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

    /// What Windows itself answered, where it was asked: for clients that would rather compare numbers.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Host(error) | Self::NotOnline { cause: error, .. } => Some(&error.answer),
            Self::Closest { cause, .. } | Self::ShareLink { cause, .. } => cause.answer(),
            Self::Service { cause, .. } => cause.as_ref().map(|error| &error.answer),
            _ => None,
        }
    }

    /// True where the client's arguments were refused before the host was asked for anything.
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
    if result == crate::host::result::DEPENDENTS_RUNNING { " (other services that need it are running)" } else { "" }
}

//! What the node RPCs can end with, and what each means to the caller.

use ebs_driver::contract::VolumeOrigin;
use ebs_driver::rpc::Rpc;
use ebs_driver::status::{IntoStatus, Meaning};
use ebs_types::{Bytes, Gib, VolumeId};
use winstorage::StorageError;
use winstorage::host::result;
use winstorage::locate::SearchError;
use winstorage::types::{DiskNumber, WinPath};

use crate::proxy_error::ProxyError;
use crate::request::RequestError;

/// An RPC that failed: which, of what, where, and why.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Before anything was looked at.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A step of the work.
    #[error("{rpc} of volume {volume} at {path} failed")]
    Work {
        /// Which.
        rpc: Rpc,
        /// Of what.
        volume: VolumeId,
        /// The path that the request names.
        path: WinPath,
        /// Why.
        #[source]
        cause: Box<Cause>,
    },
}

impl NodeError {
    /// For `map_err` at the end of an RPC's work.
    pub(crate) fn of(rpc: Rpc, volume: &VolumeId, path: &WinPath) -> impl FnOnce(Cause) -> Self {
        let (volume, path) = (volume.clone(), path.clone());
        move |cause| Self::Work { rpc, volume, path, cause: Box::new(cause) }
    }
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The machine's storage.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The proxy before it.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// A rule.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nobody waits for the result any more, so nothing further was started.
    #[error("the client no longer waits, so the driver stopped before {before}")]
    Abandoned {
        /// The step that was not started.
        before: &'static str,
    },
}

impl Cause {
    pub(crate) fn meaning(&self) -> Meaning {
        match self {
            Self::Storage(error) => of_storage(error),
            Self::Proxy(error) => of_proxy(error),
            Self::Refused(refused) => of_refused(refused),
            Self::Abandoned { .. } => Meaning::InProgress,
        }
    }
}

/// A rule that forbids what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The number of the volume's disk is another disk's by now.
    #[error("the volume was disk {was}, and now {}", .now.map_or_else(|| "it is none".to_owned(), |now| format!("it is disk {now}")))]
    DiskChanged {
        /// When it was found.
        was: DiskNumber,
        /// Just now.
        now: Option<DiskNumber>,
    },
    /// A disk smaller than EC2 promised.
    #[error("the disk has {found}, less than the {promised} of the volume")]
    TooSmall {
        /// As Windows says.
        found: Bytes,
        /// As EC2 says.
        promised: Gib,
    },
    /// A disk smaller than it was to grow to.
    #[error("Windows shows {found} of the disk, and the volume is to have {required}")]
    NotGrown {
        /// As Windows says.
        found: Bytes,
        /// As the request says.
        required: Bytes,
    },
    /// Something that is not blank and cannot be mounted.
    #[error("the disk is not blank, it holds {contents}: the driver does not format it")]
    NotBlank {
        /// In words.
        contents: String,
    },
    /// Over the csi-proxy of another project, which cannot read a disk.
    #[error(
        "Windows recognises no file system on disk {disk}, and this node's csi-proxy cannot tell whether it is blank: the driver does not format it"
    )]
    NotProvenBlank {
        /// The disk.
        disk: DiskNumber,
    },
    /// Blank, but it was to hold the data of a snapshot or of another volume.
    #[error("the disk is blank, although the volume was made from a {origin}: the driver does not format it")]
    BlankRestore {
        /// `snapshot` or `clone`.
        origin: VolumeOrigin,
    },
    /// Windows has not made the volume of a partition known.
    #[error("disk {disk} has a partition, and Windows does not show its volume yet")]
    VolumeNotShown {
        /// The disk.
        disk: DiskNumber,
    },
    /// Another volume is mounted there.
    #[error("another volume is already mounted at the path: {found}")]
    OtherMount {
        /// In words.
        found: String,
    },
    /// A thing at the path that we did not make.
    #[error("the path is taken: it is {found}")]
    InTheWay {
        /// In words.
        found: String,
    },
    /// The volume is not staged where the request says.
    #[error("the volume is not mounted at the staging path {staging}: {found}")]
    NotStaged {
        /// The path.
        staging: WinPath,
        /// What is there.
        found: String,
    },
    /// The path shows nothing of the volume.
    #[error("the path does not show this volume: it is {found}")]
    NotPublished {
        /// What is there.
        found: String,
    },
}

impl IntoStatus for NodeError {
    fn meaning(&self) -> Meaning {
        match self {
            Self::Request(error) => error.meaning(),
            Self::Work { cause, .. } => cause.meaning(),
        }
    }

    fn next_step(&self) -> Option<String> {
        match self {
            Self::Request(_) => None,
            Self::Work { cause, .. } => next_step(cause).map(str::to_owned),
        }
    }

    fn is_abandoned(&self) -> bool {
        matches!(self, Self::Work { cause, .. } if matches!(**cause, Cause::Abandoned { .. }))
    }
}

fn of_storage(error: &StorageError) -> Meaning {
    match error {
        refused if refused.is_refused_argument() => Meaning::InvalidArgument,
        StorageError::Search(SearchError::NotFound { .. }) => Meaning::NotFound,
        StorageError::Search(SearchError::Ambiguous { .. })
        | StorageError::Way(_)
        | StorageError::InUse(_)
        | StorageError::NoDisk(_)
        | StorageError::Spanned { .. }
        | StorageError::SystemStorage { .. }
        | StorageError::AlreadyFormatted(_)
        | StorageError::NotBlank { .. }
        | StorageError::NotMounted { .. }
        | StorageError::Missing { .. }
        | StorageError::MountedElsewhere { .. } => Meaning::FailedPrecondition,
        // Disks and volumes come and go while they are looked at.
        StorageError::DiskNotFound(_)
        | StorageError::VolumeNotFound(_)
        | StorageError::NoPartition(_)
        | StorageError::DiskOffline(_)
        | StorageError::DiskReplaced { .. }
        | StorageError::DiskBusy(_) => Meaning::Unavailable,
        StorageError::Host(error) | StorageError::NotOnline { cause: error, .. }
            if error.is_method(result::STORAGE_BUSY) =>
        {
            Meaning::Unavailable
        }
        _ => Meaning::Internal,
    }
}

/// It has no codes; but what became of a call that was not answered is not known.
fn of_proxy(error: &ProxyError) -> Meaning {
    match error {
        ProxyError::Unreachable { .. } | ProxyError::Late { .. } | ProxyError::Busy { .. } => Meaning::Unavailable,
        ProxyError::Refused { .. } | ProxyError::Unsupported { .. } | ProxyError::Odd { .. } => Meaning::Internal,
    }
}

fn of_refused(refused: &Refused) -> Meaning {
    match refused {
        Refused::NotPublished { .. } => Meaning::NotFound,
        Refused::VolumeNotShown { .. } | Refused::DiskChanged { .. } | Refused::NotGrown { .. } => Meaning::Unavailable,
        Refused::TooSmall { .. }
        | Refused::NotBlank { .. }
        | Refused::NotProvenBlank { .. }
        | Refused::BlankRestore { .. }
        | Refused::OtherMount { .. }
        | Refused::InTheWay { .. }
        | Refused::NotStaged { .. } => Meaning::FailedPrecondition,
    }
}

/// What to do next, where we know it.
fn next_step(cause: &Cause) -> Option<&'static str> {
    Some(match cause {
        Cause::Storage(StorageError::Search(SearchError::NotFound { .. })) => {
            "check that EC2 lists the volume as attached to this instance, then call again"
        }
        Cause::Abandoned { .. } => "call again with the same request",
        Cause::Proxy(ProxyError::Unreachable { .. } | ProxyError::Late { .. }) => {
            "see whether the service csiproxy runs on the node, then call again"
        }
        Cause::Proxy(ProxyError::Busy { .. }) => "call again",
        Cause::Proxy(ProxyError::Unsupported { .. }) => "upgrade csi-proxy on the node, then call again",
        Cause::Storage(_) | Cause::Proxy(_) => return None,
        Cause::Refused(refused) => match refused {
            Refused::DiskChanged { .. } | Refused::VolumeNotShown { .. } | Refused::NotGrown { .. } => "call again",
            Refused::TooSmall { .. } => "compare the volume's size in EC2 with the disk of this instance",
            Refused::NotBlank { .. } => {
                "this may be data, of Linux for one: take a snapshot of the volume before anything else; if nothing was ever in it, delete the \
                 claim, or wipe the whole disk on purpose"
            }
            Refused::NotProvenBlank { .. } => {
                "install this project's csi-proxy on the node, or run the driver as a process of the host (--windows-host-process): both read the \
                 disk; or start the driver with --format-over-csi-proxy, if no volume with other data can ever be given to a Windows node"
            }
            Refused::BlankRestore { .. } => {
                "if a blank source is right, say formatBlankRestore: \"true\" in the StorageClass"
            }
            Refused::OtherMount { .. } => "unmount it, then call again",
            Refused::InTheWay { .. } => "remove it or choose another path",
            Refused::NotStaged { .. } => "stage the volume there first",
            Refused::NotPublished { .. } => return None,
        },
    })
}

//! Errors of the node RPCs, and what they mean for the caller.

use ebs_driver::context::VolumeOrigin;
use ebs_driver::rpc::Rpc;
use ebs_driver::status::{IntoStatus, Meaning, to_status};
use ebs_ec2::{Bytes, Gib, VolumeId, Waiters};
use tonic::Status;
use winstorage::StorageError;
use winstorage::host::result;
use winstorage::locate::SearchError;
use winstorage::types::{DiskNumber, WinPath};

use crate::proxy_error::ProxyError;
use crate::request::RequestError;

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{rpc} of volume {volume} at {path}")]
    Work {
        rpc: Rpc,
        volume: VolumeId,
        path: WinPath,
        #[source]
        cause: Box<Cause>,
    },
}

impl NodeError {
    pub(crate) fn during(rpc: Rpc, volume: &VolumeId, path: &WinPath) -> impl FnOnce(Cause) -> Self {
        let (volume, path) = (volume.clone(), path.clone());
        move |cause| Self::Work { rpc, volume, path, cause: Box::new(cause) }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error(transparent)]
    Refused(#[from] NodeRefusal),
    #[error("the client disconnected, so the driver stopped before {before}")]
    Abandoned { before: &'static str },
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

/// Fails before a change if all callers have disconnected.
pub(crate) fn ensure_wanted(waiters: &Waiters, before: &'static str) -> Result<(), Cause> {
    if waiters.any() { Ok(()) } else { Err(Cause::Abandoned { before }) }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeRefusal {
    #[error("the volume was disk {was} and {}", .now.map_or_else(|| "now has no disk".to_owned(), |now| format!("is now disk {now}")))]
    DiskChanged { was: DiskNumber, now: Option<DiskNumber> },
    #[error("the disk has {found}, less than the volume's {promised}")]
    TooSmall { found: Bytes, promised: Gib },
    #[error("Windows reports {found} for the disk, less than the required {required}")]
    NotGrown { found: Bytes, required: Bytes },
    #[error("the disk is not blank and holds {contents}, so the driver does not format it")]
    NotBlank { contents: String },
    #[error(
        "disk {disk} has no known file system and this node's csi-proxy cannot prove that it is blank, so the driver does not format it"
    )]
    NotProvenBlank { disk: DiskNumber },
    #[error("the disk is blank although the volume was created from a {origin}, so the driver does not format it")]
    BlankRestore { origin: VolumeOrigin },
    #[error("disk {disk} has a partition whose volume does not appear in Windows yet")]
    VolumeNotShown { disk: DiskNumber },
    #[error("another volume is already mounted at the path: {found}")]
    OtherMount { found: String },
    #[error("the path is in use by {found}")]
    InTheWay { found: String },
    #[error("the volume is not mounted at the staging path {staging}: found {found}")]
    NotStaged { staging: WinPath, found: String },
    #[error("the volume is not mounted at the path: found {found}")]
    NotPublished { found: String },
}

impl From<NodeError> for Status {
    fn from(error: NodeError) -> Self {
        to_status(&error)
    }
}

impl From<RequestError> for Status {
    fn from(error: RequestError) -> Self {
        to_status(&error)
    }
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
        // Disks and volumes can appear and disappear during a check.
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

/// Returns the meaning of a proxy error. The proxy has no error codes. If a call has no reply, its outcome is unknown.
fn of_proxy(error: &ProxyError) -> Meaning {
    match error {
        ProxyError::Unreachable { .. } | ProxyError::Late { .. } | ProxyError::Busy { .. } => Meaning::Unavailable,
        ProxyError::Refused { .. } | ProxyError::Unsupported { .. } | ProxyError::Odd { .. } => Meaning::Internal,
    }
}

fn of_refused(refused: &NodeRefusal) -> Meaning {
    match refused {
        NodeRefusal::NotPublished { .. } => Meaning::NotFound,
        NodeRefusal::VolumeNotShown { .. } | NodeRefusal::DiskChanged { .. } | NodeRefusal::NotGrown { .. } => {
            Meaning::Unavailable
        }
        NodeRefusal::TooSmall { .. }
        | NodeRefusal::NotBlank { .. }
        | NodeRefusal::NotProvenBlank { .. }
        | NodeRefusal::BlankRestore { .. }
        | NodeRefusal::OtherMount { .. }
        | NodeRefusal::InTheWay { .. }
        | NodeRefusal::NotStaged { .. } => Meaning::FailedPrecondition,
    }
}

fn next_step(cause: &Cause) -> Option<&'static str> {
    Some(match cause {
        Cause::Storage(StorageError::Search(SearchError::NotFound { .. })) => {
            "check that EC2 lists the volume as attached to this instance, then retry"
        }
        Cause::Abandoned { .. } => "retry with the same request",
        Cause::Proxy(ProxyError::Unreachable { .. } | ProxyError::Late { .. }) => {
            "check that the service csiproxy runs on the node, then retry"
        }
        Cause::Proxy(ProxyError::Busy { .. }) => "retry",
        Cause::Proxy(ProxyError::Unsupported { .. }) => "upgrade csi-proxy on the node, then retry",
        Cause::Storage(_) | Cause::Proxy(_) => return None,
        Cause::Refused(refused) => match refused {
            NodeRefusal::DiskChanged { .. } | NodeRefusal::VolumeNotShown { .. } | NodeRefusal::NotGrown { .. } => {
                "retry"
            }
            NodeRefusal::TooSmall { .. } => "compare the volume's size in EC2 with the disk of this instance",
            NodeRefusal::NotBlank { .. } => {
                "this may be data, for example a Linux file system: first take a snapshot of the volume; if it never held data, delete the claim, or wipe the whole disk"
            }
            NodeRefusal::NotProvenBlank { .. } => {
                "install this project's csi-proxy, or run the driver as a host process (--windows-host-process), to check the disk; or set --format-over-csi-proxy, if Windows nodes never get volumes with other data"
            }
            NodeRefusal::BlankRestore { .. } => {
                "if the source is blank on purpose, set formatBlankRestore: \"true\" in the StorageClass"
            }
            NodeRefusal::OtherMount { .. } => "unmount it, then retry",
            NodeRefusal::InTheWay { .. } => "remove it, or choose another path",
            NodeRefusal::NotStaged { .. } => "stage the volume there first",
            NodeRefusal::NotPublished { .. } => return None,
        },
    })
}

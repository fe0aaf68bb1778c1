use ebs_ec2::{Bytes, Gib};
use ebs_mounter::{
    CheckError, DeviceError, FormatError, FsType, GrowError, Growth, GrowthLimit, IdentityError, Implausible,
    MountError, MountTableError, NodePath, ProbeError, RecordError, ToolError, UnmountError,
};

use super::request::{Handle, RequestError};
use crate::context::VolumeOrigin;
use crate::rpc::Rpc;
use crate::status::{IntoStatus, Meaning, into_status};

/// A failed RPC, with its volume, path and cause.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{rpc} of volume {volume}{} failed", path.as_ref().map(|path| format!(" at {path}")).unwrap_or_default())]
    Work {
        rpc: Rpc,
        volume: Handle,
        path: Option<NodePath>,
        #[source]
        cause: Cause,
    },
}

impl NodeError {
    /// Returns a closure for `map_err` that adds the RPC, the volume and the path to a cause.
    pub(super) fn during(rpc: Rpc, volume: &Handle, path: Option<&NodePath>) -> impl FnOnce(Cause) -> Self {
        let (volume, path) = (volume.clone(), path.cloned());
        move |cause| Self::Work { rpc, volume, path, cause }
    }
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("identify the volume that is mounted there")]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error(transparent)]
    Grow(#[from] GrowError),
    #[error(transparent)]
    Mount(#[from] MountError),
    #[error(transparent)]
    Unmount(#[from] UnmountError),
    #[error(transparent)]
    Table(#[from] MountTableError),
    #[error("{step}")]
    Io { step: &'static str, source: std::io::Error },
    #[error(transparent)]
    Implausible(#[from] Implausible),
    #[error(transparent)]
    Refused(#[from] NodeRefusal),
    #[error("the client no longer waits, so the driver stopped before {before}")]
    Abandoned { before: &'static str },
}

impl Cause {
    pub(super) fn io(step: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { step, source }
    }
}

/// A request that a rule forbids. The driver has changed nothing, unless a variant documents a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeRefusal {
    #[error("another mount is already at the path: {found}, which is not this volume")]
    OtherMount { found: String },
    #[error("the volume is already mounted there with {found}, but the request asks for {wanted}")]
    MountedDifferently { found: String, wanted: String },
    #[error("the device has {found}, less than the volume, which has {promised}")]
    TooSmall { found: Bytes, promised: Gib },
    #[error(
        "the device holds {found}, but the request asks for {asked}: the driver does not format a device that is not blank"
    )]
    OtherFileSystem { found: FsType, asked: FsType },
    #[error("the device is not blank: it holds {contents}, so the driver does not format it")]
    NotBlank { contents: String, partitions: Vec<u8> },
    #[error("the device is blank, although the volume was made from a {origin}: the driver does not format it")]
    BlankRestore { origin: VolumeOrigin },
    #[error("the device is blank, but the mount is read-only, so the driver does not format it")]
    BlankReadOnly,
    #[error("mkfs reported success, but the device holds {contents} instead of {asked}")]
    FormatLeft { contents: String, asked: FsType },
    #[error("the device is also bound as a raw device at {at}: a write there would destroy a file system on it")]
    BoundRaw { at: String },
    #[error("the device is also mounted at {at}: a write to the raw device would destroy its file system")]
    MountedToo { at: String },
    /// A process, or a mount in another namespace, holds the disk. The mount table does not show this holder.
    #[error("publish the raw device: it is held by {by}, and a write to it could destroy a file system on it")]
    HeldBeforeRaw { by: String },
    /// The volume is still used elsewhere, so the driver cannot unstage it. It has unmounted nothing.
    #[error("the volume is still in use: {at}")]
    InUse { at: String },
    #[error("{}the device is still held by {by}: it is not safe to detach", if *.unmounted { "the path is unmounted, but " } else { "" })]
    Held { by: String, unmounted: bool },
    #[error("the file system at {at} is unusable: {error}{}", if also.is_empty() { String::new() } else { format!("; it is also {also}") })]
    DeadFileSystem { at: NodePath, error: String, also: String },
    /// The kernel turned the file system read-only after errors, or no longer writes to it.
    #[error("the file system at {at} is read-only after errors, but the request asks to write{}", if also.is_empty() { String::new() } else { format!("; it is also {also}") })]
    ReadOnlyAfterErrors { at: NodePath, also: String },
    #[error("the file system is damaged, but the mount is read-only, so the driver does not repair it: {why}")]
    DamagedReadOnly { why: String },
    #[error("the path is taken: it is {found}")]
    InTheWay { found: String },
    #[error("the path is a symbolic link, which the driver does not follow")]
    Symlink,
    #[error("the volume is not mounted at the staging path {staging}: {found}")]
    NotStaged { staging: NodePath, found: String },
    #[error("the path is not a mount of this volume: {found}")]
    NotPublished { found: String },
    #[error("grow the mounted file system {growth}: the driver does not have the capability CAP_SYS_RESOURCE")]
    GrowthNeedsPrivilege { growth: Growth, has_clusters: bool },
    #[error("the file system uses {size} of the {device} bytes of its disk and cannot become larger: {limit}")]
    AtItsLimit { size: u64, device: u64, limit: GrowthLimit },
    #[error("the file system cannot grow: {}", match errors {
        Some(errors) => format!("the kernel turned it read-only after errors ({errors})"),
        None => "it is read-only although it was mounted for writing, probably because of errors".to_owned(),
    })]
    CannotGrowReadOnly { errors: Option<String> },
    /// EC2 has made the disk larger, but the kernel does not show the new size yet.
    #[error("the kernel shows a disk of {found}, less than the requested {wanted}")]
    NotYetLarge { found: Bytes, wanted: Bytes },
}

into_status!(NodeError, RequestError);

impl IntoStatus for NodeError {
    fn meaning(&self) -> Meaning {
        match self {
            Self::Request(error) => error.meaning(),
            Self::Work { cause, .. } => meaning(cause),
        }
    }

    fn next_step(&self) -> Option<String> {
        match self {
            Self::Request(_) => None,
            Self::Work { cause, .. } => next_step(cause),
        }
    }

    fn is_abandoned(&self) -> bool {
        matches!(self, Self::Work { cause: Cause::Abandoned { .. }, .. })
    }
}

pub(super) fn meaning(cause: &Cause) -> Meaning {
    match cause {
        Cause::Device(error) => of_device(error),
        Cause::Identity(error) => of_identity(error),
        Cause::Probe(error) => of_probe(error),
        Cause::Format(error) => match error {
            FormatError::Device(error) => of_device(error),
            FormatError::Probe(error) => of_probe(error),
            FormatError::NoLongerBlank { .. } | FormatError::Held { .. } => Meaning::FailedPrecondition,
            FormatError::Record(_) | FormatError::Prepare(_) | FormatError::Mkfs(_) | FormatError::Flush { .. } => {
                Meaning::Internal
            }
        },
        Cause::Check(CheckError::Uncorrected(_)) => Meaning::FailedPrecondition,
        Cause::Record(error) if error.is_unknown() => Meaning::Unavailable,
        Cause::Check(CheckError::Tool(_) | CheckError::Interrupted(_))
        | Cause::Record(_)
        | Cause::Table(_)
        | Cause::Implausible(_) => Meaning::Internal,
        Cause::Grow(error) => match error {
            // FailedPrecondition is the only code of NodeExpandVolume after which the kubelet still starts the pod.
            GrowError::Check(_)
            | GrowError::NoSuperblock { .. }
            | GrowError::Clusters
            | GrowError::Tool(_)
            | GrowError::NotGrown { .. } => Meaning::FailedPrecondition,
            GrowError::Sizes { source, .. } => of_io(source),
        },
        Cause::Mount(error) => match error {
            MountError::Device(error) => of_device(error),
            MountError::Probe(error) => of_probe(error),
            MountError::ContentsChanged { .. } => Meaning::FailedPrecondition,
            MountError::Option { .. } | MountError::OneOfOptions { .. } => Meaning::InvalidArgument,
            MountError::Refused { .. } | MountError::Table(_) | MountError::NotAsWanted { .. } => Meaning::Internal,
        },
        Cause::Unmount(UnmountError::Busy { .. }) => Meaning::FailedPrecondition,
        Cause::Unmount(UnmountError::Changed { .. }) => Meaning::InProgress,
        Cause::Unmount(UnmountError::Table { .. } | UnmountError::Refused { .. } | UnmountError::Endless { .. }) => {
            Meaning::Internal
        }
        Cause::Io { source, .. } => of_io(source),
        Cause::Refused(refused) => of_refused(refused),
        Cause::Abandoned { .. } => Meaning::InProgress,
    }
}

fn of_io(error: &std::io::Error) -> Meaning {
    match error.kind() {
        std::io::ErrorKind::NotFound => Meaning::NotFound,
        std::io::ErrorKind::TimedOut => Meaning::Unavailable,
        std::io::ErrorKind::DirectoryNotEmpty => Meaning::FailedPrecondition,
        _ => Meaning::Internal,
    }
}

fn of_device(error: &DeviceError) -> Meaning {
    match error {
        DeviceError::Missing { .. } | DeviceError::NoPartition { .. } => Meaning::NotFound,
        DeviceError::Foreign { .. } | DeviceError::Changed { .. } => Meaning::FailedPrecondition,
        DeviceError::Unusable { source, .. } => of_identity(source),
        DeviceError::Stuck(_) => Meaning::Unavailable,
    }
}

fn of_identity(error: &IdentityError) -> Meaning {
    match error {
        IdentityError::NotABlockDevice | IdentityError::Elsewhere(_) | IdentityError::NoSerial => {
            Meaning::FailedPrecondition
        }
        IdentityError::Io(_) => Meaning::Internal,
        IdentityError::Stuck(_) => Meaning::Unavailable,
    }
}

fn of_probe(error: &ProbeError) -> Meaning {
    match error {
        ProbeError::Read { .. } | ProbeError::Tool { .. } => Meaning::Internal,
        ProbeError::Disagreement { .. } => Meaning::FailedPrecondition,
        ProbeError::Stuck(_) => Meaning::Unavailable,
    }
}

fn of_refused(refused: &NodeRefusal) -> Meaning {
    match refused {
        NodeRefusal::MountedDifferently { .. } => Meaning::AlreadyExists,
        NodeRefusal::Symlink => Meaning::InvalidArgument,
        NodeRefusal::NotPublished { .. } => Meaning::NotFound,
        NodeRefusal::FormatLeft { .. } => Meaning::Internal,
        NodeRefusal::NotYetLarge { .. } => Meaning::Unavailable,
        NodeRefusal::OtherMount { .. }
        | NodeRefusal::TooSmall { .. }
        | NodeRefusal::OtherFileSystem { .. }
        | NodeRefusal::NotBlank { .. }
        | NodeRefusal::BlankRestore { .. }
        | NodeRefusal::BlankReadOnly
        | NodeRefusal::BoundRaw { .. }
        | NodeRefusal::MountedToo { .. }
        | NodeRefusal::HeldBeforeRaw { .. }
        | NodeRefusal::InUse { .. }
        | NodeRefusal::Held { .. }
        | NodeRefusal::DeadFileSystem { .. }
        | NodeRefusal::ReadOnlyAfterErrors { .. }
        | NodeRefusal::DamagedReadOnly { .. }
        | NodeRefusal::InTheWay { .. }
        | NodeRefusal::NotStaged { .. }
        | NodeRefusal::GrowthNeedsPrivilege { .. }
        | NodeRefusal::AtItsLimit { .. }
        | NodeRefusal::CannotGrowReadOnly { .. } => Meaning::FailedPrecondition,
    }
}

/// The advice protects data first. Its last part is for readers who are sure that the volume holds no data.
const NOT_BLANK: &str = "this may be data: to keep it, take a snapshot first, then copy from the raw block volume; if \
                         the volume never held data, delete the claim. You can also wipe the device with blkdiscard --zeroout on the node (not with wipefs alone)";

fn next_step(cause: &Cause) -> Option<String> {
    match cause {
        Cause::Refused(NodeRefusal::NotBlank { partitions, .. }) => Some(after_not_blank(partitions)),
        Cause::Refused(refused) => after_refusal(refused).map(str::to_owned),
        other => after_failure(other).map(str::to_owned),
    }
}

fn after_not_blank(partitions: &[u8]) -> String {
    let Some(first) = partitions.first() else { return NOT_BLANK.to_owned() };
    let all = partitions.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "to use a partition, set the volume attribute partition: \"{first}\" (partitions: {all}); otherwise {NOT_BLANK}"
    )
}

fn after_failure(cause: &Cause) -> Option<&'static str> {
    Some(match cause {
        Cause::Device(DeviceError::Missing { .. }) => {
            "check that EC2 lists the volume as attached to this instance, then call again"
        }
        Cause::Device(DeviceError::Foreign { .. }) => "detach the volume and attach it again, or restart udev",
        Cause::Probe(ProbeError::Disagreement { .. }) | Cause::Format(FormatError::NoLongerBlank { .. }) => NOT_BLANK,
        Cause::Unmount(UnmountError::Busy { .. }) => "end the processes that use it, then call again",
        Cause::Mount(MountError::Option { .. } | MountError::OneOfOptions { .. }) => {
            "remove it from the mountOptions of the StorageClass and of the PersistentVolume"
        }
        Cause::Record(error) if error.is_unknown() => "make the state directory readable, then call again",
        Cause::Abandoned { .. } => "call again with the same request",
        other => return was_killed(other).then_some(MORE_MEMORY),
    })
}

const MORE_MEMORY: &str =
    "check the kernel log; if memory ran out, raise the memory limit of the node's container, then call again";

fn was_killed(cause: &Cause) -> bool {
    let tool = match cause {
        Cause::Check(CheckError::Tool(tool) | CheckError::Interrupted(tool))
        | Cause::Format(FormatError::Mkfs(tool))
        | Cause::Grow(
            GrowError::Tool(tool) | GrowError::Check(CheckError::Tool(tool) | CheckError::Interrupted(tool)),
        ) => tool,
        _ => return false,
    };
    matches!(tool, ToolError::Killed { .. })
}

fn after_refusal(refused: &NodeRefusal) -> Option<&'static str> {
    Some(match refused {
        NodeRefusal::OtherMount { .. } => "unmount it, then call again",
        NodeRefusal::MountedDifferently { .. } => "unpublish or unstage the volume there first",
        NodeRefusal::TooSmall { .. } => "compare the volume's size in EC2 with the disk of this instance",
        NodeRefusal::OtherFileSystem { .. } => "the volume may hold data: request the file system that it has",
        NodeRefusal::NotBlank { .. } => NOT_BLANK,
        NodeRefusal::BlankRestore { .. } => {
            "if the source is blank on purpose, set formatBlankRestore: \"true\" in the StorageClass"
        }
        NodeRefusal::BlankReadOnly | NodeRefusal::DamagedReadOnly { .. } => {
            "stage the volume once without the mount option ro"
        }
        NodeRefusal::BoundRaw { .. } => "unpublish the raw device or unmount that path, then call again",
        NodeRefusal::MountedToo { .. } => "unpublish and unstage the volume's file system, then call again",
        NodeRefusal::InUse { .. } => "unpublish the volume there or unmount that path, then call again",
        NodeRefusal::Held { .. } | NodeRefusal::HeldBeforeRaw { .. } => {
            "end the process or container that holds it (look for the device's number in /proc/*/mountinfo), then call again"
        }
        NodeRefusal::DeadFileSystem { .. } => {
            "check the kernel log and end the pods that use the volume on this node: the next NodeStageVolume call then mounts it again"
        }
        NodeRefusal::ReadOnlyAfterErrors { .. } => {
            "check the kernel log and end the pods that use the volume on this node: the next NodeStageVolume call then checks the file system and mounts it again"
        }
        NodeRefusal::InTheWay { .. } | NodeRefusal::Symlink => "remove it or choose another path",
        NodeRefusal::NotStaged { .. } => "stage the volume there first",
        NodeRefusal::GrowthNeedsPrivilege { has_clusters: false, .. } => {
            "give the driver CAP_SYS_RESOURCE; otherwise the file system grows only before its next mount, after the pods that use it on this node have ended"
        }
        NodeRefusal::GrowthNeedsPrivilege { has_clusters: true, .. } => {
            "give the driver CAP_SYS_RESOURCE: a file system with clusters (bigalloc) grows only while it is mounted"
        }
        NodeRefusal::AtItsLimit { .. } => "use it at this size, or copy the data to a new volume",
        NodeRefusal::CannotGrowReadOnly { .. } => {
            "check the kernel log and end the pods that use the volume on this node: the next NodeStageVolume call then checks the file system"
        }
        NodeRefusal::NotYetLarge { .. } => {
            "call again; if the size does not change, compare the volume's size in EC2 with `lsblk --bytes` on the node"
        }
        NodeRefusal::FormatLeft { .. } | NodeRefusal::NotPublished { .. } => return None,
    })
}

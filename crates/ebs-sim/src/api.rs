//! The closed vocabulary of the simulated EC2: what can be called, what is answered, what can go wrong.
//!
//! The wire layer decodes requests into [`Call`] and encodes [`Reply`]; the port adapter does the same for Rust
//! callers. Nothing is checked here: ids are whatever text the client sent, numbers are as wide as the wire allows,
//! and the engine is the judge, as EC2 is.

mod calls;
mod objects;

use serde::{Deserialize, Serialize};

pub use calls::{
    AttachVolume, BlockDeviceMapping, ClusterNodeVolume, CopyVolumes, CreateSnapshot, CreateTags, CreateVolume,
    DeleteSnapshot, DeleteTags, DeleteVolume, DescribeAvailabilityZones, DescribeFastSnapshotRestores,
    DescribeInstanceTypes, DescribeInstances, DescribeLockedSnapshots, DescribeSnapshots, DescribeTags,
    DescribeVolumeStatus, DescribeVolumes, DescribeVolumesModifications, DetachVolume, EnableFastSnapshotRestores,
    Filter, LockSnapshot, ModifyVolume, RunInstances, Tag, TagSpecification, TagToDelete, TerminateInstances,
};
pub use objects::{
    Listing, SimAttachment, SimBlockDevice, SimFastRestore, SimFastRestoreError, SimFastRestores, SimInitialization,
    SimInstance, SimInstanceType, SimModification, SimNetworkInterface, SimSnapshot, SimSnapshotLock, SimStateChange,
    SimStatusDetail, SimTag, SimVolume, SimVolumeStatus, SimZone, StateView,
};

/// One call to EC2. As JSON, for the simulator's own journal, it is no dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub enum Call {
    CreateVolume(CreateVolume),
    CopyVolumes(CopyVolumes),
    DeleteVolume(DeleteVolume),
    DescribeVolumes(DescribeVolumes),
    DescribeVolumeStatus(DescribeVolumeStatus),
    AttachVolume(AttachVolume),
    DetachVolume(DetachVolume),
    ModifyVolume(ModifyVolume),
    DescribeVolumesModifications(DescribeVolumesModifications),
    CreateSnapshot(CreateSnapshot),
    DeleteSnapshot(DeleteSnapshot),
    DescribeSnapshots(DescribeSnapshots),
    CreateTags(CreateTags),
    DeleteTags(DeleteTags),
    DescribeTags(DescribeTags),
    DescribeInstances(DescribeInstances),
    DescribeInstanceTypes(DescribeInstanceTypes),
    DescribeAvailabilityZones(DescribeAvailabilityZones),
    RunInstances(RunInstances),
    TerminateInstances(TerminateInstances),
    EnableFastSnapshotRestores(EnableFastSnapshotRestores),
    DescribeFastSnapshotRestores(DescribeFastSnapshotRestores),
    LockSnapshot(LockSnapshot),
    DescribeLockedSnapshots(DescribeLockedSnapshots),
    /// SageMaker's.
    AttachClusterNodeVolume(ClusterNodeVolume),
    /// SageMaker's.
    DetachClusterNodeVolume(ClusterNodeVolume),
}

impl Call {
    /// The action's name on the wire.
    pub fn action(&self) -> &'static str {
        match self {
            Self::CreateVolume(_) => "CreateVolume",
            Self::CopyVolumes(_) => "CopyVolumes",
            Self::DeleteVolume(_) => "DeleteVolume",
            Self::DescribeVolumes(_) => "DescribeVolumes",
            Self::DescribeVolumeStatus(_) => "DescribeVolumeStatus",
            Self::AttachVolume(_) => "AttachVolume",
            Self::DetachVolume(_) => "DetachVolume",
            Self::ModifyVolume(_) => "ModifyVolume",
            Self::DescribeVolumesModifications(_) => "DescribeVolumesModifications",
            Self::CreateSnapshot(_) => "CreateSnapshot",
            Self::DeleteSnapshot(_) => "DeleteSnapshot",
            Self::DescribeSnapshots(_) => "DescribeSnapshots",
            Self::CreateTags(_) => "CreateTags",
            Self::DeleteTags(_) => "DeleteTags",
            Self::DescribeTags(_) => "DescribeTags",
            Self::DescribeInstances(_) => "DescribeInstances",
            Self::DescribeInstanceTypes(_) => "DescribeInstanceTypes",
            Self::DescribeAvailabilityZones(_) => "DescribeAvailabilityZones",
            Self::RunInstances(_) => "RunInstances",
            Self::TerminateInstances(_) => "TerminateInstances",
            Self::EnableFastSnapshotRestores(_) => "EnableFastSnapshotRestores",
            Self::DescribeFastSnapshotRestores(_) => "DescribeFastSnapshotRestores",
            Self::LockSnapshot(_) => "LockSnapshot",
            Self::DescribeLockedSnapshots(_) => "DescribeLockedSnapshots",
            Self::AttachClusterNodeVolume(_) => "AttachClusterNodeVolume",
            Self::DetachClusterNodeVolume(_) => "DetachClusterNodeVolume",
        }
    }

    /// True when the client only asks whether the call would work.
    pub fn dry_run(&self) -> bool {
        match self {
            Self::CreateVolume(c) => c.dry_run,
            Self::CopyVolumes(c) => c.dry_run,
            Self::DeleteVolume(c) => c.dry_run,
            Self::DescribeVolumes(c) => c.dry_run,
            Self::DescribeVolumeStatus(c) => c.dry_run,
            Self::AttachVolume(c) => c.dry_run,
            Self::DetachVolume(c) => c.dry_run,
            Self::ModifyVolume(c) => c.dry_run,
            Self::DescribeVolumesModifications(c) => c.dry_run,
            Self::CreateSnapshot(c) => c.dry_run,
            Self::DeleteSnapshot(c) => c.dry_run,
            Self::DescribeSnapshots(c) => c.dry_run,
            Self::CreateTags(c) => c.dry_run,
            Self::DeleteTags(c) => c.dry_run,
            Self::DescribeTags(c) => c.dry_run,
            Self::DescribeInstances(c) => c.dry_run,
            Self::DescribeInstanceTypes(c) => c.dry_run,
            Self::DescribeAvailabilityZones(c) => c.dry_run,
            Self::RunInstances(c) => c.dry_run,
            Self::TerminateInstances(c) => c.dry_run,
            Self::EnableFastSnapshotRestores(c) => c.dry_run,
            Self::DescribeFastSnapshotRestores(c) => c.dry_run,
            Self::LockSnapshot(c) => c.dry_run,
            Self::DescribeLockedSnapshots(c) => c.dry_run,
            Self::AttachClusterNodeVolume(_) | Self::DetachClusterNodeVolume(_) => false,
        }
    }
}

/// The answer to a [`Call`] that succeeded, one variant for each action.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub enum Reply {
    CreateVolume(SimVolume),
    CopyVolumes(Vec<SimVolume>),
    DeleteVolume,
    DescribeVolumes(Listing<SimVolume>),
    DescribeVolumeStatus(Listing<SimVolumeStatus>),
    AttachVolume(SimAttachment),
    DetachVolume(SimAttachment),
    ModifyVolume(SimModification),
    DescribeVolumesModifications(Listing<SimModification>),
    CreateSnapshot(SimSnapshot),
    DeleteSnapshot,
    DescribeSnapshots(Listing<SimSnapshot>),
    CreateTags,
    DeleteTags,
    DescribeTags(Listing<SimTag>),
    DescribeInstances(Listing<SimInstance>),
    DescribeInstanceTypes(Listing<SimInstanceType>),
    DescribeAvailabilityZones(Vec<SimZone>),
    RunInstances(Vec<SimInstance>),
    TerminateInstances(Vec<SimStateChange>),
    EnableFastSnapshotRestores(SimFastRestores),
    DescribeFastSnapshotRestores(Listing<SimFastRestore>),
    LockSnapshot(SimSnapshotLock),
    DescribeLockedSnapshots(Listing<SimSnapshotLock>),
    AttachClusterNodeVolume(SimAttachment),
    DetachClusterNodeVolume(SimAttachment),
}

impl Reply {
    /// Ids of the volumes that the call made; for a call that was made before, those of the first time.
    pub(crate) fn new_volumes(&self) -> Vec<String> {
        match self {
            Self::CreateVolume(volume) => vec![volume.id.clone()],
            Self::CopyVolumes(volumes) => volumes.iter().map(|volume| volume.id.clone()).collect(),
            _ => Vec::new(),
        }
    }
}

/// An error answer of EC2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Fault {
    /// EC2's code, `InvalidVolume.NotFound`.
    pub code: String,
    /// Text for people.
    pub message: String,
    /// HTTP status, 400 for most.
    pub status: u16,
}

impl Fault {
    /// A client error (HTTP 400).
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), status: 400 }
    }

    /// An error with another HTTP status.
    pub fn with_status(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), status }
    }
}

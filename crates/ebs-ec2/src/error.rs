//! The one error of the port.

use std::error::Error;
use std::sync::Arc;

use crate::Action;

/// Which quota or ceiling was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Volumes or their total size in the account and region (`VolumeLimitExceeded`).
    Volumes,
    /// Snapshots in the account and region (`SnapshotLimitExceeded`).
    Snapshots,
    /// Attachments of the instance (`AttachmentLimitExceeded`).
    Attachments,
    /// Total provisioned IOPS of the account (`MaxIOPSLimitExceeded`).
    Iops,
    /// Total size in modification (`VolumeModificationSizeLimitExceeded`).
    ModificationSize,
    /// Snapshots of the volume in progress (`ConcurrentSnapshotLimitExceeded`).
    ConcurrentSnapshots,
    /// Tags of the resource (`TagLimitExceeded`).
    Tags,
}

/// What an EC2 error means. Closed: whoever decides on it decides on all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// No such volume (`InvalidVolume.NotFound`).
    VolumeNotFound,
    /// No such snapshot (`InvalidSnapshot.NotFound`).
    SnapshotNotFound,
    /// No such instance (`InvalidInstanceID.NotFound`).
    InstanceNotFound,
    /// The volume is not attached so (`InvalidAttachment.NotFound`).
    AttachmentNotFound,
    /// The volume was never modified (`InvalidVolumeModification.NotFound`).
    ModificationNotFound,
    /// The id cannot be one (`InvalidVolumeID.Malformed`, `InvalidParameterValue` about an id): it names nothing.
    MalformedId,
    /// The object is in a state that forbids the action (`IncorrectState` …).
    IncorrectState,
    /// The instance is in a state that forbids the action, as one that is shutting down (`IncorrectInstanceState`).
    IncorrectInstanceState,
    /// The volume is in modification, and the action has to wait for its end (`OperationNotPermitted`, "in modification
    /// state").
    BeingModified,
    /// Not now, for one of many reasons that only EC2's words tell (`OperationNotPermitted`).
    NotPermitted,
    /// The volume is attached (`VolumeInUse`).
    VolumeInUse,
    /// The snapshot is in use (`InvalidSnapshot.InUse`) or locked (`SnapshotLocked`).
    SnapshotInUse,
    /// The snapshot is enabled for fast restores in some zone (`InvalidSnapshot.InUse`, "enabled for fast restores").
    FastRestoresEnabled,
    /// The device name is taken (`InvalidParameterValue`, "already in use").
    DeviceNameInUse,
    /// The client token was used with other parameters (`IdempotentParameterMismatch`).
    IdempotentMismatch,
    /// A quota or ceiling.
    LimitExceeded(Limit),
    /// No room in the zone (`InsufficientVolumeCapacity`).
    InsufficientCapacity,
    /// The zone has no volumes of that type (`VolumeTypeNotAvailableInZone`); another zone may.
    VolumeTypeNotInZone,
    /// Volume and instance are in different zones (`InvalidVolume.ZoneMismatch`).
    ZoneMismatch,
    /// A parameter that EC2 refuses.
    InvalidParameter,
    /// The type or feature does not exist here (`UnsupportedOperation`, `UnknownVolumeType`).
    Unsupported,
    /// Too soon after the last modification (`VolumeModificationRateExceeded`).
    ModificationCooldown,
    /// Too soon after the last snapshot of the volume (`SnapshotCreationPerVolumeRateExceeded`).
    SnapshotCooldown,
    /// A paging token that EC2 does not know (`InvalidNextToken`, `InvalidPaginationToken`).
    BadToken,
    /// The dry run would have succeeded (`DryRunOperation`).
    DryRunSucceeded,
    /// Slow down: nothing was done.
    Throttled,
    /// Credentials are missing, wrong or expired, or the signature did not verify (`AuthFailure` …).
    Unauthenticated,
    /// The credentials do not allow it (`UnauthorizedOperation`).
    Unauthorized,
    /// AWS does not let the account use EC2, whatever its policies say (`Blocked`, `OptInRequired`, `PendingVerification`).
    AccountState,
    /// A key that cannot be used (KMS).
    Encryption,
    /// The request never left (name not resolved, connection refused): nothing was done.
    NotSent,
    /// No reply, or one that does not say what happened (time-out, `InternalError`, `Unavailable`, 5xx): the call
    /// may have been carried out.
    Ambiguous,
    /// Any other answer of EC2: definite, nothing was done.
    Other,
}

/// A call that failed: what was called, what it means, and EC2's own words.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{action}: {}{message}{}", code.as_deref().map(|c| format!("{c}: ")).unwrap_or_default(),
        request_id.as_deref().map(|r| format!(" (request id {r})")).unwrap_or_default())]
pub struct Ec2Error {
    /// What was called.
    pub action: Action,
    /// What the error means.
    pub class: ErrorClass,
    /// EC2's code; `None` when there was no reply.
    pub code: Option<String>,
    /// EC2's message, or what went wrong on the way.
    pub message: String,
    /// EC2's request id, for support.
    pub request_id: Option<String>,
    /// What went wrong below, when there was no reply.
    #[source]
    pub source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Ec2Error {
    /// An error without code, request id or source.
    pub fn new(action: Action, class: ErrorClass, message: impl Into<String>) -> Self {
        Self { action, class, code: None, message: message.into(), request_id: None, source: None }
    }
}

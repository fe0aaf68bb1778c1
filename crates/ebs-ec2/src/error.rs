//! The error of the port.

use std::error::Error;
use std::sync::Arc;

use crate::Action;

/// The quota or limit that was reached.
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

/// The meaning of an EC2 error. A closed enum: each mapping is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The volume does not exist (`InvalidVolume.NotFound`).
    VolumeNotFound,
    /// The snapshot does not exist (`InvalidSnapshot.NotFound`).
    SnapshotNotFound,
    /// The instance does not exist (`InvalidInstanceID.NotFound`).
    InstanceNotFound,
    /// The volume is not attached to the instance (`InvalidAttachment.NotFound`).
    AttachmentNotFound,
    /// The volume was never modified (`InvalidVolumeModification.NotFound`).
    ModificationNotFound,
    /// The id is invalid (`InvalidVolumeID.Malformed`, `InvalidParameterValue` about an id), so it names no object.
    MalformedId,
    /// The state of the object forbids the action (`IncorrectState` …).
    IncorrectState,
    /// The state of the instance forbids the action, for example `shutting-down` (`IncorrectInstanceState`).
    IncorrectInstanceState,
    /// The volume is being modified, and the action has to wait for the end (`OperationNotPermitted`, "in modification
    /// state").
    BeingModified,
    /// Not permitted now. Only EC2's message has the reason (`OperationNotPermitted`).
    NotPermitted,
    /// The volume is attached (`VolumeInUse`).
    VolumeInUse,
    /// The snapshot is in use (`InvalidSnapshot.InUse`) or locked (`SnapshotLocked`).
    SnapshotInUse,
    /// The snapshot is enabled for fast restores in a zone (`InvalidSnapshot.InUse`, "enabled for fast restores").
    FastRestoresEnabled,
    /// The device name is in use (`InvalidParameterValue`, "already in use").
    DeviceNameInUse,
    /// The client token was used with other parameters (`IdempotentParameterMismatch`).
    IdempotentMismatch,
    /// A quota or limit.
    LimitExceeded(Limit),
    /// The zone has no capacity (`InsufficientVolumeCapacity`).
    InsufficientCapacity,
    /// The zone does not support the volume type (`VolumeTypeNotAvailableInZone`). Another zone may.
    VolumeTypeNotInZone,
    /// Volume and instance are in different zones (`InvalidVolume.ZoneMismatch`).
    ZoneMismatch,
    /// EC2 refuses a parameter.
    InvalidParameter,
    /// The type or feature is not supported here (`UnsupportedOperation`, `UnknownVolumeType`).
    Unsupported,
    /// Too soon after the last modification (`VolumeModificationRateExceeded`).
    ModificationCooldown,
    /// Too soon after the last snapshot of the volume (`SnapshotCreationPerVolumeRateExceeded`).
    SnapshotCooldown,
    /// EC2 does not know the page token (`InvalidNextToken`, `InvalidPaginationToken`).
    BadToken,
    /// The dry run would have succeeded (`DryRunOperation`).
    DryRunSucceeded,
    /// A throttle. EC2 did nothing.
    Throttled,
    /// Credentials are missing, wrong or expired, or the signature did not verify (`AuthFailure` …).
    Unauthenticated,
    /// The credentials do not permit the action (`UnauthorizedOperation`).
    Unauthorized,
    /// AWS does not let the account use EC2, independent of its policies (`Blocked`, `OptInRequired`,
    /// `PendingVerification`).
    AccountState,
    /// An unusable KMS key.
    Encryption,
    /// The request was never sent (name not resolved, connection refused). EC2 did nothing.
    NotSent,
    /// No reply, or one without an outcome (timeout, `InternalError`, `Unavailable`, 5xx). EC2 may have carried out the
    /// call.
    Ambiguous,
    /// Any other definite error of EC2. EC2 did nothing.
    Other,
}

/// A failed call: the action, the meaning of the error, and EC2's own message.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{action}: {}{message}{}", code.as_deref().map(|c| format!("{c}: ")).unwrap_or_default(),
        request_id.as_deref().map(|r| format!(" (request id {r})")).unwrap_or_default())]
pub struct Ec2Error {
    pub action: Action,
    pub class: ErrorClass,
    /// EC2's code. `None` if there was no reply.
    pub code: Option<String>,
    /// EC2's message, or the failure on the way to EC2.
    pub message: String,
    /// EC2's request id, for support.
    pub request_id: Option<String>,
    #[source]
    pub source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Ec2Error {
    /// Returns an error without code, request id or source.
    pub fn new(action: Action, class: ErrorClass, message: impl Into<String>) -> Self {
        Self { action, class, code: None, message: message.into(), request_id: None, source: None }
    }
}

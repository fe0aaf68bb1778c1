//! The error of the port.

use std::error::Error;
use std::sync::Arc;

use crate::Action;

/// Which quota or limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The number or total size of volumes in the account and region (`VolumeLimitExceeded`).
    Volumes,
    /// The number of snapshots in the account and region (`SnapshotLimitExceeded`).
    Snapshots,
    /// The number of attachments of the instance (`AttachmentLimitExceeded`).
    Attachments,
    /// The total provisioned IOPS of the account (`MaxIOPSLimitExceeded`).
    Iops,
    /// The total size of volumes being modified (`VolumeModificationSizeLimitExceeded`).
    ModificationSize,
    /// The number of snapshots in progress for the volume (`ConcurrentSnapshotLimitExceeded`).
    ConcurrentSnapshots,
    /// The number of the resource's tags (`TagLimitExceeded`).
    Tags,
}

/// The meaning of an EC2 error. The enum is closed, so that the compiler checks that each mapping is complete.
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
    /// The id is invalid, so it names no object (`InvalidVolumeID.Malformed`, or `InvalidParameterValue` about an id).
    MalformedId,
    /// The state of the object forbids the action (`IncorrectState` …).
    IncorrectState,
    /// The state of the instance forbids the action, such as `shutting-down` (`IncorrectInstanceState`).
    IncorrectInstanceState,
    /// The volume is being modified, so the action must wait (`OperationNotPermitted`, "in modification state").
    BeingModified,
    /// EC2 does not currently permit the action. Only its message has the reason (`OperationNotPermitted`).
    NotPermitted,
    /// The volume is attached (`VolumeInUse`).
    VolumeInUse,
    /// The snapshot is in use (`InvalidSnapshot.InUse`) or locked (`SnapshotLocked`).
    SnapshotInUse,
    /// The snapshot is enabled for fast restores in a zone (`InvalidSnapshot.InUse`, "enabled for fast restores").
    FastRestoresEnabled,
    /// The device name is in use (`InvalidParameterValue`, "already in use").
    DeviceNameInUse,
    /// An earlier request used the client token with other parameters (`IdempotentParameterMismatch`).
    IdempotentMismatch,
    /// The account or the object has reached a quota or limit.
    LimitExceeded(Limit),
    /// The zone has no capacity (`InsufficientVolumeCapacity`).
    InsufficientCapacity,
    /// The zone does not support the volume type, but another zone may (`VolumeTypeNotAvailableInZone`).
    VolumeTypeNotInZone,
    /// The volume and the instance are in different zones (`InvalidVolume.ZoneMismatch`).
    ZoneMismatch,
    /// EC2 refuses a parameter.
    InvalidParameter,
    /// EC2 does not support the type or feature here (`UnsupportedOperation`, `UnknownVolumeType`).
    Unsupported,
    /// The last modification of the volume was too recent (`VolumeModificationRateExceeded`).
    ModificationCooldown,
    /// The last snapshot of the volume was too recent (`SnapshotCreationPerVolumeRateExceeded`).
    SnapshotCooldown,
    /// EC2 does not know the page token (`InvalidNextToken`, `InvalidPaginationToken`).
    BadToken,
    /// The dry run would have succeeded (`DryRunOperation`).
    DryRunSucceeded,
    /// EC2 throttled the call and did nothing.
    Throttled,
    /// Credentials are missing, wrong or expired, or the signature is invalid (`AuthFailure` …).
    Unauthenticated,
    /// The credentials do not permit the action (`UnauthorizedOperation`).
    Unauthorized,
    /// AWS does not let the account use EC2 at all (`Blocked`, `OptInRequired`, `PendingVerification`).
    AccountState,
    /// The KMS key cannot be used.
    Encryption,
    /// The request was not sent (name not resolved, connection refused), so EC2 did nothing.
    NotSent,
    /// EC2 may have carried out the call: it sent no reply or an unclear one (`InternalError`, `Unavailable`, 5xx).
    Ambiguous,
    /// Any other error that EC2 reported clearly. EC2 did nothing.
    Other,
}

/// A failed call: its action, the class of the error, and EC2's own message.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{action}: {}{message}{}", code.as_deref().map(|c| format!("{c}: ")).unwrap_or_default(),
        request_id.as_deref().map(|r| format!(" (request id {r})")).unwrap_or_default())]
pub struct Ec2Error {
    pub action: Action,
    pub class: ErrorClass,
    /// EC2's error code, or `None` if there was no reply.
    pub code: Option<String>,
    /// EC2's message, or what failed on the way to EC2.
    pub message: String,
    /// EC2's id of the request, which AWS support can look up.
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

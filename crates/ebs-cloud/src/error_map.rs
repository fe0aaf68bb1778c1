//! Maps a refusal of EC2 to an error, by its class.

use std::fmt::Display;

use ebs_ec2::{Ec2Error, ErrorClass, Limit};

use crate::error::{CloudError, CloudErrorKind};
use crate::object::Object;

/// Returns the error for a refused call, unless the operation has its own rule for the class. `what` is the action and
/// its object, as a fragment: `attach vol-1 to i-2`.
pub(crate) fn map_error(what: impl Display, error: Ec2Error) -> CloudError {
    let kind = match error.class {
        ErrorClass::MalformedId
        | ErrorClass::InvalidParameter
        | ErrorClass::Unsupported
        | ErrorClass::VolumeTypeNotInZone
        | ErrorClass::VolumeNotFound
        | ErrorClass::SnapshotNotFound
        | ErrorClass::InstanceNotFound => CloudErrorKind::InvalidArgument,
        ErrorClass::AttachmentNotFound
        | ErrorClass::ModificationNotFound
        | ErrorClass::IncorrectState
        | ErrorClass::IncorrectInstanceState
        | ErrorClass::BeingModified
        | ErrorClass::NotPermitted
        | ErrorClass::VolumeInUse
        | ErrorClass::SnapshotInUse
        | ErrorClass::FastRestoresEnabled
        | ErrorClass::DeviceNameInUse
        | ErrorClass::ZoneMismatch
        | ErrorClass::ModificationCooldown
        | ErrorClass::Encryption => CloudErrorKind::FailedPrecondition,
        ErrorClass::IdempotentMismatch => CloudErrorKind::AlreadyExists,
        ErrorClass::LimitExceeded(_) => CloudErrorKind::LimitExceeded,
        ErrorClass::InsufficientCapacity => CloudErrorKind::InsufficientCapacity,
        ErrorClass::SnapshotCooldown | ErrorClass::Throttled | ErrorClass::NotSent => CloudErrorKind::Unavailable,
        ErrorClass::BadToken => CloudErrorKind::BadPageToken,
        ErrorClass::Unauthenticated => CloudErrorKind::Unauthenticated,
        ErrorClass::Unauthorized | ErrorClass::AccountState => CloudErrorKind::Unauthorized,
        // A read without a clear answer leaves nothing behind.
        ErrorClass::Ambiguous if !error.action.mutates() => CloudErrorKind::Unavailable,
        ErrorClass::Ambiguous => CloudErrorKind::OutcomeUnknown,
        ErrorClass::DryRunSucceeded | ErrorClass::Other => CloudErrorKind::Internal,
    };
    kind.error(format!("{what}: {}", reason(&error))).caused_by(error)
}

/// Returns the same for a call about one object, including "does not exist".
pub(crate) fn map_error_about(what: impl Display, object: Object, error: Ec2Error) -> CloudError {
    match (error.class, &object) {
        (ErrorClass::MalformedId, _)
        | (ErrorClass::VolumeNotFound, Object::Volume(_))
        | (ErrorClass::SnapshotNotFound, Object::Snapshot(_)) => CloudError::not_found(object).caused_by(error),
        _ => map_error(what, error),
    }
}

/// Returns the exceeded quota or limit, and the advice.
fn exceeded(limit: Limit) -> &'static str {
    match limit {
        Limit::Volumes => {
            "the account's quota of volumes or of their GiB is exhausted; delete volumes or raise the quota"
        }
        Limit::Snapshots => "the account's quota of snapshots is exhausted; delete snapshots or raise the quota",
        Limit::Attachments => "the instance has reached its attachment limit; use another node or detach something",
        Limit::Iops => "the account's quota of provisioned IOPS is exhausted; request fewer or raise the quota",
        Limit::ModificationSize => {
            "the account's quota of GiB being modified is exhausted; wait for other modifications or raise the quota"
        }
        Limit::ConcurrentSnapshots => "too many snapshots are in progress; wait until one of them is completed",
        Limit::Tags => "EC2 allows at most 50 tags on it; request fewer",
    }
}

/// Returns the rule behind a class, in our words.
fn reason(error: &Ec2Error) -> &'static str {
    match error.class {
        ErrorClass::VolumeNotFound => "the volume does not exist",
        ErrorClass::SnapshotNotFound => "the snapshot does not exist",
        ErrorClass::InstanceNotFound => "the instance does not exist",
        ErrorClass::AttachmentNotFound => "the attachment does not exist",
        ErrorClass::ModificationNotFound => "the modification does not exist",
        ErrorClass::MalformedId => "EC2 reports a malformed id in the request; correct the id",
        ErrorClass::IncorrectState => "the current state of the object does not allow it",
        ErrorClass::IncorrectInstanceState => "the current state of the instance does not allow it",
        ErrorClass::BeingModified => "the volume is being modified; try again when the modification is done",
        ErrorClass::NotPermitted => "EC2 does not currently permit it",
        ErrorClass::VolumeInUse => "the volume is in use; detach it first",
        ErrorClass::SnapshotInUse => "the snapshot is in use or locked",
        ErrorClass::FastRestoresEnabled => "fast snapshot restores are enabled; disable them in every zone first",
        ErrorClass::DeviceNameInUse => "the device name is in use",
        ErrorClass::IdempotentMismatch => "an earlier request used this name with different parameters",
        ErrorClass::LimitExceeded(limit) => exceeded(limit),
        ErrorClass::InsufficientCapacity => "the zone has no capacity for this volume now",
        ErrorClass::VolumeTypeNotInZone => "the zone does not offer this volume type; use another type or zone",
        ErrorClass::ZoneMismatch => "volume and instance are in different zones",
        ErrorClass::InvalidParameter => "EC2 rejects a parameter",
        ErrorClass::Unsupported => "EC2 does not support this here",
        ErrorClass::ModificationCooldown => "too soon after earlier modifications of the volume",
        ErrorClass::SnapshotCooldown => "too soon after the last snapshot of the volume",
        ErrorClass::BadToken => "the page token is invalid or expired; list from the beginning",
        ErrorClass::DryRunSucceeded => "unexpected DryRunOperation response",
        ErrorClass::Throttled => "EC2 throttles the driver",
        ErrorClass::Unauthenticated => {
            "EC2 does not accept the credentials; check that they exist and have not expired, and that the clock is \
             right"
        }
        ErrorClass::Unauthorized => "the credentials do not allow it; check the driver's IAM policy",
        ErrorClass::AccountState => {
            "AWS does not let the account use EC2; check the account's subscription, verification and billing with AWS"
        }
        ErrorClass::Encryption => {
            "the KMS key is unusable; check that it exists, is enabled and that its policy lets the driver use it"
        }
        // The error itself names the obstacle and what to check.
        ErrorClass::NotSent => "EC2 was not called",
        ErrorClass::Ambiguous if !error.action.mutates() => "EC2 gave no clear answer to a read",
        ErrorClass::Ambiguous => "EC2 gave no clear answer and may have executed the call",
        ErrorClass::Other => "EC2 rejected it",
    }
}

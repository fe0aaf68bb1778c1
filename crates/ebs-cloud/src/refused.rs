//! Maps a refusal of EC2 to an error, by its class.

use std::fmt::Display;

use ebs_ec2::{Ec2Error, ErrorClass, Limit};

use crate::error::{CloudError, CloudErrorKind};
use crate::object::Object;

/// Returns the error for a refused call, unless the operation has its own rule for the class. `what` is the action and
/// its object, as a fragment: `attach vol-1 to i-2`.
pub(crate) fn refused(what: impl Display, error: Ec2Error) -> CloudError {
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
pub(crate) fn refused_about(what: impl Display, object: Object, error: Ec2Error) -> CloudError {
    match (error.class, &object) {
        (ErrorClass::MalformedId, _)
        | (ErrorClass::VolumeNotFound, Object::Volume(_))
        | (ErrorClass::SnapshotNotFound, Object::Snapshot(_)) => CloudError::not_found(object).caused_by(error),
        _ => refused(what, error),
    }
}

/// Returns the exceeded quota or limit, and the advice.
fn exceeded(limit: Limit) -> &'static str {
    match limit {
        Limit::Volumes => {
            "the account has as many volumes, or GiB of them, as its quota allows: delete some or have it raised"
        }
        Limit::Snapshots => "the account has as many snapshots as its quota allows: delete some or have it raised",
        Limit::Attachments => "the instance has as many attachments as it takes: use another node, or detach something",
        Limit::Iops => "the account has as many IOPS provisioned as its quota allows: ask for fewer or have it raised",
        Limit::ModificationSize => {
            "more GiB are being modified than the account's quota allows: wait for the others or have it raised"
        }
        Limit::ConcurrentSnapshots => "too many snapshots are in progress: wait until one of them is completed",
        Limit::Tags => "EC2 takes at most 50 tags on it: ask for fewer",
    }
}

/// Returns the rule behind a class, in our words.
fn reason(error: &Ec2Error) -> &'static str {
    match error.class {
        ErrorClass::VolumeNotFound => "the volume does not exist",
        ErrorClass::SnapshotNotFound => "the snapshot does not exist",
        ErrorClass::InstanceNotFound => "the instance does not exist",
        ErrorClass::AttachmentNotFound => "there is no such attachment",
        ErrorClass::ModificationNotFound => "there is no such modification",
        ErrorClass::MalformedId => "EC2 says that an id in the request is malformed: correct the id",
        ErrorClass::IncorrectState => "the state of the object forbids it",
        ErrorClass::IncorrectInstanceState => "the state of the instance forbids it",
        ErrorClass::BeingModified => "the volume is being modified: try again when EC2 has done that",
        ErrorClass::NotPermitted => "EC2 does not permit it as things are",
        ErrorClass::VolumeInUse => "the volume is in use: detach it first",
        ErrorClass::SnapshotInUse => "the snapshot is in use or locked",
        ErrorClass::FastRestoresEnabled => "fast snapshot restores are enabled: disable them in every zone first",
        ErrorClass::DeviceNameInUse => "the device name is taken",
        ErrorClass::IdempotentMismatch => "the name was used before with other parameters",
        ErrorClass::LimitExceeded(limit) => exceeded(limit),
        ErrorClass::InsufficientCapacity => "the zone has no room for such a volume now",
        ErrorClass::VolumeTypeNotInZone => "the zone has no volumes of that type: use another type, or another zone",
        ErrorClass::ZoneMismatch => "volume and instance are in different zones",
        ErrorClass::InvalidParameter => "EC2 refuses a parameter",
        ErrorClass::Unsupported => "EC2 does not support this here",
        ErrorClass::ModificationCooldown => "too soon after earlier modifications of the volume",
        ErrorClass::SnapshotCooldown => "too soon after the last snapshot of the volume",
        ErrorClass::BadToken => "the paging token is not valid (any more): list from the beginning",
        ErrorClass::DryRunSucceeded => "EC2 answered a dry run that was none",
        ErrorClass::Throttled => "EC2 asks us to slow down",
        ErrorClass::Unauthenticated => {
            "EC2 does not accept the credentials: check that they exist and have not expired, and that the clock is right"
        }
        ErrorClass::Unauthorized => "the credentials do not allow it: check the driver's IAM policy",
        ErrorClass::AccountState => {
            "AWS does not let the account use EC2: check the account's subscription, verification and billing with AWS"
        }
        ErrorClass::Encryption => {
            "the KMS key cannot be used: check that it exists, is enabled and that its policy lets the driver use it"
        }
        // The error itself names the obstacle and what to check.
        ErrorClass::NotSent => "EC2 was not called",
        ErrorClass::Ambiguous if !error.action.mutates() => "EC2 gave no clear answer to a question",
        ErrorClass::Ambiguous => "EC2 gave no clear answer, it may have been done",
        ErrorClass::Other => "EC2 refused it",
    }
}

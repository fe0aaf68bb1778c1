//! Maps EC2's refusals to errors, by their class.

use std::fmt::Display;

use ebs_ec2::{Ec2Error, ErrorClass, Limit};

use crate::error::{CloudError, CloudErrorKind};
use crate::object::Object;

/// Returns the error for a refused call. `what` is a fragment with the action and its object: `attach vol-1 to i-2`.
pub(crate) fn map_error(what: impl Display, error: Ec2Error) -> CloudError {
    let (kind, reason) = meaning(&error);
    kind.error(format!("{what}: {reason}")).caused_by(error)
}

/// Returns the error for a refused call about one object. Includes "does not exist", which [`map_error`] does not map.
pub(crate) fn map_error_about(what: impl Display, object: Object, error: Ec2Error) -> CloudError {
    match (error.class, &object) {
        (ErrorClass::MalformedId, _)
        | (ErrorClass::VolumeNotFound, Object::Volume(_))
        | (ErrorClass::SnapshotNotFound, Object::Snapshot(_)) => CloudError::not_found(object).caused_by(error),
        _ => map_error(what, error),
    }
}

/// Names the exceeded quota or limit and advises what to do.
fn exceeded(limit: Limit) -> &'static str {
    match limit {
        Limit::Volumes => {
            "the account's quota of volumes or of their GiB is exhausted; delete volumes or raise the quota"
        }
        Limit::Snapshots => "the account's quota of snapshots is exhausted; delete snapshots or raise the quota",
        Limit::Attachments => "the instance has reached its attachment limit; use another node or detach a volume",
        Limit::Iops => "the account's quota of provisioned IOPS is exhausted; request fewer or raise the quota",
        Limit::ModificationSize => {
            "the account's quota of GiB being modified is exhausted; wait for other modifications or raise the quota"
        }
        Limit::ConcurrentSnapshots => "too many snapshots are in progress; wait until one of them is completed",
        Limit::Tags => "EC2 allows at most 50 tags on a resource; request fewer",
    }
}

/// Returns the meaning of a class, and the rule behind it in our words.
fn meaning(error: &Ec2Error) -> (CloudErrorKind, &'static str) {
    use CloudErrorKind as Kind;
    use ErrorClass as Class;
    match error.class {
        Class::VolumeNotFound => (Kind::InvalidArgument, "the volume does not exist"),
        Class::SnapshotNotFound => (Kind::InvalidArgument, "the snapshot does not exist"),
        Class::InstanceNotFound => (Kind::InvalidArgument, "the instance does not exist"),
        Class::AttachmentNotFound => (Kind::FailedPrecondition, "the attachment does not exist"),
        Class::ModificationNotFound => (Kind::FailedPrecondition, "the modification does not exist"),
        Class::MalformedId => (Kind::InvalidArgument, "EC2 reports a malformed id in the request; correct the id"),
        Class::IncorrectState => (Kind::FailedPrecondition, "the current state of the object does not allow it"),
        Class::IncorrectInstanceState => {
            (Kind::FailedPrecondition, "the current state of the instance does not allow it")
        }
        Class::BeingModified => {
            (Kind::FailedPrecondition, "the volume is being modified; try again when the modification is done")
        }
        Class::NotPermitted => (Kind::FailedPrecondition, "EC2 does not currently permit the call"),
        Class::VolumeInUse => (Kind::FailedPrecondition, "the volume is in use; detach it first"),
        Class::SnapshotInUse => (Kind::FailedPrecondition, "the snapshot is in use or locked"),
        Class::FastRestoresEnabled => {
            (Kind::FailedPrecondition, "fast snapshot restores are enabled; disable them in every zone first")
        }
        Class::DeviceNameInUse => (Kind::FailedPrecondition, "the device name is in use"),
        Class::IdempotentMismatch => {
            (Kind::AlreadyExists, "an earlier request used this name with different parameters")
        }
        Class::LimitExceeded(limit) => (Kind::LimitExceeded, exceeded(limit)),
        Class::InsufficientCapacity => (Kind::InsufficientCapacity, "the zone has no capacity for this volume now"),
        Class::VolumeTypeNotInZone => {
            (Kind::InvalidArgument, "the zone does not offer this volume type; use another type or zone")
        }
        Class::ZoneMismatch => (Kind::FailedPrecondition, "volume and instance are in different zones"),
        Class::InvalidParameter => (Kind::InvalidArgument, "EC2 rejects a parameter"),
        Class::Unsupported => (Kind::InvalidArgument, "EC2 does not support this type or feature here"),
        Class::ModificationCooldown => (Kind::FailedPrecondition, "too soon after earlier modifications of the volume"),
        Class::SnapshotCooldown => (Kind::Unavailable, "too soon after the last snapshot of the volume"),
        Class::BadToken => (Kind::BadPageToken, "the page token is invalid or expired; list from the beginning"),
        Class::DryRunSucceeded => (Kind::Internal, "unexpected DryRunOperation response"),
        Class::Throttled => (Kind::Unavailable, "EC2 throttles the driver"),
        Class::Unauthenticated => (
            Kind::Unauthenticated,
            "EC2 does not accept the credentials; check that they exist and have not expired, and that the clock is \
             right",
        ),
        Class::Unauthorized => {
            (Kind::Unauthorized, "the credentials do not permit the call; check the driver's IAM policy")
        }
        Class::AccountState => (
            Kind::Unauthorized,
            "AWS does not let the account use EC2; check the account's subscription, verification and billing with AWS",
        ),
        Class::Encryption => (
            Kind::FailedPrecondition,
            "the KMS key is unusable; check that it exists, is enabled and that its policy lets the driver use it",
        ),
        // The cause of the error already names the obstacle and what to check.
        Class::NotSent => (Kind::Unavailable, "EC2 was not called"),
        Class::Ambiguous if !error.action.mutates() => (Kind::Unavailable, "EC2 gave no clear answer to a read"),
        Class::Ambiguous => (Kind::OutcomeUnknown, "EC2 gave no clear answer and may have executed the call"),
        Class::Other => (Kind::Internal, "EC2 rejected it"),
    }
}

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

/// Returns the error for a refused call about one object. Unlike [`map_error`], also maps "does not exist".
pub(crate) fn map_error_about(what: impl Display, object: Object, error: Ec2Error) -> CloudError {
    match (error.class, &object) {
        (ErrorClass::MalformedId, _)
        | (ErrorClass::VolumeNotFound, Object::Volume(_))
        | (ErrorClass::SnapshotNotFound, Object::Snapshot(_)) => CloudError::not_found(object).caused_by(error),
        _ => map_error(what, error),
    }
}

fn exceeded(limit: Limit) -> &'static str {
    match limit {
        Limit::Volumes => {
            "the account's quota of volumes or of volume storage is exhausted; delete volumes or raise the quota"
        }
        Limit::Snapshots => "the account's quota of snapshots is exhausted; delete snapshots or raise the quota",
        Limit::Attachments => "the instance has reached its attachment limit; use another node or detach a volume",
        Limit::Iops => "the account's quota of provisioned IOPS is exhausted; request fewer or raise the quota",
        Limit::ModificationSize => {
            "the account's quota of storage in concurrent modifications is exhausted; wait for other modifications or raise the quota"
        }
        Limit::ConcurrentSnapshots => "too many snapshots are in progress; wait until one of them is completed",
        Limit::Tags => "EC2 allows at most 50 tags on a resource; request fewer",
    }
}

/// Returns the error kind for the class of EC2's error, and the driver's text for the rule.
fn meaning(error: &Ec2Error) -> (CloudErrorKind, &'static str) {
    use CloudErrorKind as K;
    use ErrorClass as C;
    match error.class {
        C::VolumeNotFound => (K::InvalidArgument, "the volume does not exist"),
        C::SnapshotNotFound => (K::InvalidArgument, "the snapshot does not exist"),
        C::InstanceNotFound => (K::InvalidArgument, "the instance does not exist"),
        C::AttachmentNotFound => (K::FailedPrecondition, "the attachment does not exist"),
        C::ModificationNotFound => (K::FailedPrecondition, "the modification does not exist"),
        C::MalformedId => (K::InvalidArgument, "EC2 reported that an id in the request is malformed; correct the id"),
        C::IncorrectState => (K::FailedPrecondition, "the current state of the object does not allow the call"),
        C::IncorrectInstanceState => {
            (K::FailedPrecondition, "the current state of the instance does not allow the call")
        }
        C::BeingModified => {
            (K::FailedPrecondition, "the volume is being modified; try again when the modification is done")
        }
        C::NotPermitted => (K::FailedPrecondition, "EC2 does not currently permit the call"),
        C::VolumeInUse => (K::FailedPrecondition, "the volume is in use; detach it first"),
        C::SnapshotInUse => (K::FailedPrecondition, "the snapshot is in use or locked"),
        C::FastRestoresEnabled => {
            (K::FailedPrecondition, "fast snapshot restores are enabled; disable them in every zone first")
        }
        C::DeviceNameInUse => (K::FailedPrecondition, "the device name is in use"),
        C::IdempotentMismatch => (K::AlreadyExists, "an earlier request used this name with different parameters"),
        C::LimitExceeded(limit) => (K::LimitExceeded, exceeded(limit)),
        C::InsufficientCapacity => (K::InsufficientCapacity, "the zone has no capacity for this volume now"),
        C::VolumeTypeNotInZone => {
            (K::InvalidArgument, "the zone does not offer this volume type; use another type or zone")
        }
        C::ZoneMismatch => (K::FailedPrecondition, "volume and instance are in different zones"),
        C::InvalidParameter => (K::InvalidArgument, "EC2 rejected a parameter"),
        C::Unsupported => (K::InvalidArgument, "EC2 does not support this type or feature here"),
        C::ModificationCooldown => (K::FailedPrecondition, "too soon after earlier modifications of the volume"),
        C::SnapshotCooldown => (K::Unavailable, "too soon after the last snapshot of the volume"),
        C::BadToken => (K::BadPageToken, "the page token is invalid or expired; list from the beginning"),
        C::DryRunSucceeded => (K::Internal, "unexpected DryRunOperation response"),
        C::Throttled => (K::Unavailable, "EC2 throttled the call"),
        C::Unauthenticated => (
            K::Unauthenticated,
            "EC2 does not accept the credentials; check that they exist and have not expired, and that the clock is \
             right",
        ),
        C::Unauthorized => (K::Unauthorized, "the credentials do not permit the call; check the driver's IAM policy"),
        C::AccountState => (
            K::Unauthorized,
            "AWS does not let the account use EC2; check the account's subscription, verification and billing with AWS",
        ),
        C::Encryption => (
            K::FailedPrecondition,
            "the KMS key is unusable; check that it exists, is enabled and that its policy lets the driver use it",
        ),
        // The cause of the error already names the obstacle and what to check.
        C::NotSent => (K::Unavailable, "EC2 was not called"),
        C::Ambiguous if !error.action.mutates() => (K::Unavailable, "EC2 gave no clear answer to a read call"),
        C::Ambiguous => (K::OutcomeUnknown, "EC2 gave no clear answer and may have executed the call"),
        C::Other => (K::Internal, "EC2 rejected the call"),
    }
}

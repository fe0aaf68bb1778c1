//! The meaning of EC2's error codes. `ebs-aws` has a separate table on purpose: the shared test suites check the two
//! tables against each other.

use ebs_ec2::{Action, Ec2Error, ErrorClass, Limit};

use crate::api::{Fault, Reply};
use crate::engine::CallResponse;

/// Interprets a reply as a client does: after a lost or unreadable reply, the result is unknown.
pub(super) fn understood(action: Action, answer: CallResponse) -> Result<Reply, Ec2Error> {
    let unknown = |why: &str| Err(Ec2Error::new(action, ErrorClass::Ambiguous, why));
    match answer {
        CallResponse::Delivered(result) => result.map_err(|fault| error(action, fault)),
        CallResponse::Silence => unknown("the connection closed before a reply"),
        CallResponse::Corrupted(..) => unknown("invalid reply"),
    }
}

/// Returns the error class of a reply, or `None` for success.
pub(super) fn of_answer(answer: &CallResponse) -> Option<ErrorClass> {
    match answer {
        CallResponse::Delivered(result) => result.as_ref().err().map(class),
        CallResponse::Silence | CallResponse::Corrupted(..) => Some(ErrorClass::Ambiguous),
    }
}

fn error(action: Action, fault: Fault) -> Ec2Error {
    let class = class(&fault);
    Ec2Error {
        action,
        class,
        code: Some(fault.code),
        message: fault.message,
        request_id: Some("sim".to_owned()),
        source: None,
    }
}

fn class(fault: &Fault) -> ErrorClass {
    match fault.code.as_str() {
        "InvalidVolume.NotFound" => ErrorClass::VolumeNotFound,
        "InvalidSnapshot.NotFound" => ErrorClass::SnapshotNotFound,
        "InvalidInstanceID.NotFound" => ErrorClass::InstanceNotFound,
        "InvalidAttachment.NotFound" => ErrorClass::AttachmentNotFound,
        "InvalidVolumeModification.NotFound" => ErrorClass::ModificationNotFound,
        "InvalidVolumeID.Malformed" | "InvalidSnapshotID.Malformed" | "InvalidInstanceID.Malformed" | "InvalidID" => {
            ErrorClass::MalformedId
        }
        "InvalidParameterValue" if fault.message.contains("is already in use") => ErrorClass::DeviceNameInUse,
        "InvalidParameterValue" if is_about_an_id(&fault.message) => ErrorClass::MalformedId,
        "InvalidParameterValue" if fault.message.contains("for parameter NextToken") => ErrorClass::BadToken,
        "IncorrectState" | "IncorrectModificationState" => ErrorClass::IncorrectState,
        "IncorrectInstanceState" => ErrorClass::IncorrectInstanceState,
        "OperationNotPermitted" if fault.message.contains("in modification state") => ErrorClass::BeingModified,
        "OperationNotPermitted" => ErrorClass::NotPermitted,
        "VolumeInUse" => ErrorClass::VolumeInUse,
        "InvalidSnapshot.InUse" if fault.message.contains("enabled for fast restores") => {
            ErrorClass::FastRestoresEnabled
        }
        "InvalidSnapshot.InUse" | "SnapshotLocked" => ErrorClass::SnapshotInUse,
        "IdempotentParameterMismatch" => ErrorClass::IdempotentMismatch,
        "VolumeLimitExceeded" => ErrorClass::LimitExceeded(Limit::Volumes),
        "SnapshotLimitExceeded" => ErrorClass::LimitExceeded(Limit::Snapshots),
        "ConcurrentSnapshotLimitExceeded" | "PendingSnapshotLimitExceeded" => {
            ErrorClass::LimitExceeded(Limit::ConcurrentSnapshots)
        }
        "AttachmentLimitExceeded" => ErrorClass::LimitExceeded(Limit::Attachments),
        "MaxIOPSLimitExceeded" => ErrorClass::LimitExceeded(Limit::Iops),
        "VolumeModificationSizeLimitExceeded" => ErrorClass::LimitExceeded(Limit::ModificationSize),
        "TagLimitExceeded" => ErrorClass::LimitExceeded(Limit::Tags),
        "InsufficientVolumeCapacity" => ErrorClass::InsufficientCapacity,
        "InvalidVolume.ZoneMismatch" => ErrorClass::ZoneMismatch,
        "UnsupportedOperation" | "UnknownVolumeType" => ErrorClass::Unsupported,
        "VolumeTypeNotAvailableInZone" => ErrorClass::VolumeTypeNotInZone,
        "VolumeModificationRateExceeded" => ErrorClass::ModificationCooldown,
        "SnapshotCreationPerVolumeRateExceeded" => ErrorClass::SnapshotCooldown,
        "InvalidNextToken" | "InvalidPaginationToken" => ErrorClass::BadToken,
        "DryRunOperation" => ErrorClass::DryRunSucceeded,
        "RequestLimitExceeded" => ErrorClass::Throttled,
        "AuthFailure" | "RequestExpired" => ErrorClass::Unauthenticated,
        "UnauthorizedOperation" => ErrorClass::Unauthorized,
        "InvalidParameterValue"
        | "InvalidParameterCombination"
        | "InvalidParameterDependency"
        | "MissingParameter"
        | "InvalidRequest"
        | "FilterLimitExceeded"
        | "InvalidInstanceType"
        | "InvalidZone.NotFound" => ErrorClass::InvalidParameter,
        "ValidationException" => cluster_node_class(fault),
        _ if fault.status >= 500 => ErrorClass::Ambiguous,
        _ => ErrorClass::Other,
    }
}

/// SageMaker wraps EC2's errors in its own: `HyperPod - Ec2ErrCode: X`.
fn cluster_node_class(fault: &Fault) -> ErrorClass {
    let Some((_, rest)) = fault.message.split_once("HyperPod - Ec2ErrCode: ") else {
        return ErrorClass::InvalidParameter;
    };
    let code: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
    class(&Fault::new(code, rest))
}

fn is_about_an_id(message: &str) -> bool {
    let names = ["volumeId", "volumes", "snapshotId"];
    names.iter().any(|name| message.contains(&format!("for parameter {name} is invalid")))
}

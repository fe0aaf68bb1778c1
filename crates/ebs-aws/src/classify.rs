//! Assigns a class to each of EC2's error codes, in one table.

use ebs_ec2::ErrorClass as C;
use ebs_ec2::{Action, ErrorClass, Limit};

/// Codes with which EC2 rejects a call because of the call rate, without executing it. The HTTP status varies.
pub(crate) const THROTTLES: [&str; 14] = [
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "LimitExceededException",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "TransactionInProgressException",
];

/// Each code that has a class of its own, except the throttles and the codes whose class depends on the message.
const TABLE: &[(&str, ErrorClass)] = &[
    ("DryRunOperation", C::DryRunSucceeded),
    ("InvalidVolume.NotFound", C::VolumeNotFound),
    ("InvalidSnapshot.NotFound", C::SnapshotNotFound),
    ("InvalidInstanceID.NotFound", C::InstanceNotFound),
    // SageMaker's code for a missing node or cluster.
    ("ResourceNotFound", C::InstanceNotFound),
    ("InvalidAttachment.NotFound", C::AttachmentNotFound),
    ("InvalidVolumeModification.NotFound", C::ModificationNotFound),
    ("InvalidVolumeID.Malformed", C::MalformedId),
    ("InvalidVolumeId.Malformed", C::MalformedId),
    ("InvalidSnapshotID.Malformed", C::MalformedId),
    ("InvalidSnapshotId.Malformed", C::MalformedId),
    ("InvalidInstanceID.Malformed", C::MalformedId),
    ("InvalidInstanceId.Malformed", C::MalformedId),
    ("InvalidID", C::MalformedId),
    ("IncorrectState", C::IncorrectState),
    ("IncorrectInstanceState", C::IncorrectInstanceState),
    ("IncorrectModificationState", C::IncorrectState),
    ("VolumeInUse", C::VolumeInUse),
    ("InvalidSnapshot.InUse", C::SnapshotInUse),
    ("SnapshotLocked", C::SnapshotInUse),
    ("InvalidDevice.InUse", C::DeviceNameInUse),
    ("IdempotentParameterMismatch", C::IdempotentMismatch),
    ("InvalidVolume.ZoneMismatch", C::ZoneMismatch),
    ("InvalidVolumeID.ZoneMismatch", C::ZoneMismatch),
    ("InsufficientVolumeCapacity", C::InsufficientCapacity),
    ("InsufficientCapacityOnOutpost", C::InsufficientCapacity),
    ("VolumeModificationRateExceeded", C::ModificationCooldown),
    ("SnapshotCreationPerVolumeRateExceeded", C::SnapshotCooldown),
    ("VolumeLimitExceeded", C::LimitExceeded(Limit::Volumes)),
    ("SnapshotLimitExceeded", C::LimitExceeded(Limit::Snapshots)),
    ("AttachmentLimitExceeded", C::LimitExceeded(Limit::Attachments)),
    ("MaxIOPSLimitExceeded", C::LimitExceeded(Limit::Iops)),
    ("VolumeIOPSLimit", C::LimitExceeded(Limit::Iops)),
    ("VolumeModificationSizeLimitExceeded", C::LimitExceeded(Limit::ModificationSize)),
    ("ConcurrentSnapshotLimitExceeded", C::LimitExceeded(Limit::ConcurrentSnapshots)),
    ("PendingSnapshotLimitExceeded", C::LimitExceeded(Limit::ConcurrentSnapshots)),
    ("TagLimitExceeded", C::LimitExceeded(Limit::Tags)),
    ("InvalidNextToken", C::BadToken),
    ("InvalidPaginationToken", C::BadToken),
    ("InvalidParameter", C::InvalidParameter),
    ("InvalidParameterCombination", C::InvalidParameter),
    ("InvalidParameterDependency", C::InvalidParameter),
    ("MissingParameter", C::InvalidParameter),
    ("UnknownParameter", C::InvalidParameter),
    ("ValidationError", C::InvalidParameter),
    ("InvalidRequest", C::InvalidParameter),
    ("InvalidBlockDeviceMapping", C::InvalidParameter),
    ("MalformedQueryString", C::InvalidParameter),
    ("FilterLimitExceeded", C::InvalidParameter),
    ("InvalidFilter", C::InvalidParameter),
    ("InvalidAvailabilityZone", C::InvalidParameter),
    ("InvalidZone.NotFound", C::InvalidParameter),
    ("InvalidInstanceType", C::InvalidParameter),
    ("InvalidTagKey.Malformed", C::InvalidParameter),
    ("TagPolicyViolation", C::InvalidParameter),
    ("RequestResourceCountExceeded", C::InvalidParameter),
    ("UnsupportedOperation", C::Unsupported),
    ("UnsupportedOperationException", C::Unsupported),
    ("Unsupported", C::Unsupported),
    ("UnknownVolumeType", C::Unsupported),
    ("VolumeTypeNotAvailableInZone", C::VolumeTypeNotInZone),
    ("VolumeTypeNotAvailableInRegion", C::Unsupported),
    ("EncryptedVolumesNotSupported", C::Unsupported),
    ("InvalidAction", C::Unsupported),
    ("AuthFailure", C::Unauthenticated),
    ("ExpiredToken", C::Unauthenticated),
    ("ExpiredTokenException", C::Unauthenticated),
    ("IncompleteSignature", C::Unauthenticated),
    ("InvalidAccessKeyId", C::Unauthenticated),
    ("InvalidClientTokenId", C::Unauthenticated),
    ("InvalidSecurity", C::Unauthenticated),
    ("MissingAuthenticationToken", C::Unauthenticated),
    ("RequestExpired", C::Unauthenticated),
    ("SignatureDoesNotMatch", C::Unauthenticated),
    ("InvalidSignatureException", C::Unauthenticated),
    ("RequestTimeTooSkewed", C::Unauthenticated),
    ("UnrecognizedClientException", C::Unauthenticated),
    ("UnauthorizedOperation", C::Unauthorized),
    ("AccessDenied", C::Unauthorized),
    ("AccessDeniedException", C::Unauthorized),
    ("AccountDisabled", C::AccountState),
    ("Blocked", C::AccountState),
    ("OptInRequired", C::AccountState),
    ("PendingVerification", C::AccountState),
    ("CustomerKeyHasBeenRevoked", C::Encryption),
    ("InternalError", C::Ambiguous),
    ("InternalFailure", C::Ambiguous),
    ("InternalServerError", C::Ambiguous),
    ("Unavailable", C::Ambiguous),
    ("ServiceUnavailable", C::Ambiguous),
    ("RequestTimeout", C::Ambiguous),
    ("RequestTimeoutException", C::Ambiguous),
];

/// Returns the class of an error answer. An unknown code is a definite error, unless the status is a server error.
pub(crate) fn by_code(action: Action, status: u16, code: &str, message: &str) -> ErrorClass {
    if THROTTLES.contains(&code) {
        return C::Throttled;
    }
    match code {
        "InvalidParameterValue" => return parameter_value(action, message),
        "OperationNotPermitted" => return operation_not_permitted(message),
        "InvalidSnapshot.InUse" if message.contains("fast restores") => return C::FastRestoresEnabled,
        "ValidationException" => {
            return ec2_code_within(message)
                .map_or(C::InvalidParameter, |code| by_code(action, status, &code, message));
        }
        _ => {}
    }
    if let Some((_, class)) = TABLE.iter().find(|(known, _)| *known == code) {
        return *class;
    }
    match status {
        _ if code.to_ascii_lowercase().contains("kms") => C::Encryption,
        500.. => C::Ambiguous,
        _ => C::Other,
    }
}

/// Extracts EC2's code from a SageMaker message such as `HyperPod - Ec2ErrCode: X`.
fn ec2_code_within(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("HyperPod - Ec2ErrCode:")?;
    let code: String =
        rest.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_')).collect();
    let code = code.trim_end_matches('.');
    (!code.is_empty() && code != "ValidationException").then(|| code.to_owned())
}

/// Returns the class of `OperationNotPermitted`. Only the message distinguishes its reasons.
fn operation_not_permitted(message: &str) -> ErrorClass {
    if message.contains("in modification state") {
        ErrorClass::BeingModified
    } else if message.contains("detach root volume") {
        // EC2 now returns `IncorrectState` for the detachment of a root volume.
        ErrorClass::IncorrectState
    } else {
        ErrorClass::NotPermitted
    }
}

/// Returns the class of `InvalidParameterValue`. Only the message distinguishes its meanings.
fn parameter_value(action: Action, message: &str) -> ErrorClass {
    let message = message.to_ascii_lowercase();
    // Some names end with an "s" if a call takes several values: "for parameter volumes is invalid".
    const NAMES: [&str; 5] = ["volume", "snapshot", "instance", "resource", "sourcevolume"];
    let says = |name: &str| message.contains(&format!("for parameter {name} is invalid"));
    let names_an_id = |name: &&str| ["", "s", "id", "ids"].iter().any(|end| says(&format!("{name}{end}")));
    if NAMES.iter().any(names_an_id) {
        ErrorClass::MalformedId
    } else if action == Action::AttachVolume && message.contains("already in use") {
        ErrorClass::DeviceNameInUse
    } else if ["pagination token", "next token", "nexttoken"].iter().any(|word| message.contains(word)) {
        ErrorClass::BadToken
    } else {
        ErrorClass::InvalidParameter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes that `tests/wire/ec2_replies/rows.tsv` does not contain.
    const ROWS: &[(&str, C)] = &[
        ("VolumeModificationSizeLimitExceeded", C::LimitExceeded(Limit::ModificationSize)),
        ("SnapshotLimitExceeded", C::LimitExceeded(Limit::Snapshots)),
        ("UnknownParameter", C::InvalidParameter),
        ("ValidationError", C::InvalidParameter),
        ("VolumeTypeNotAvailableInZone", C::VolumeTypeNotInZone),
        ("Blocked", C::AccountState),
        ("OptInRequired", C::AccountState),
        ("PendingVerification", C::AccountState),
        ("AccountDisabled", C::AccountState),
        ("SignatureDoesNotMatch", C::Unauthenticated),
        ("KmsKeyDisabledException", C::Encryption),
        ("InvalidVolumeID.Malformed", C::MalformedId),
        ("InvalidNextToken", C::BadToken),
        ("InvalidKmsKeyId.Malformed", C::Encryption),
        ("InvalidPaginationToken", C::BadToken),
        ("SnapshotLocked", C::SnapshotInUse),
        ("UnsupportedOperationException", C::Unsupported),
    ];

    /// Even with a server-error status, a definite code remains definite.
    #[test]
    fn error_code_determines_class_regardless_of_http_status() {
        for (code, class) in ROWS.iter().chain(TABLE) {
            for status in [400, 503] {
                assert_eq!(by_code(Action::CreateVolume, status, code, ""), *class, "{code}");
            }
        }
        assert_eq!(by_code(Action::CreateVolume, 400, "AnythingElse", ""), C::Other);
    }

    #[test]
    fn error_code_table_lists_each_code_once() {
        for (i, (code, _)) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|(other, _)| other != code), "{code}");
            assert!(!THROTTLES.contains(code), "{code}");
        }
    }

    #[test]
    fn throttle_code_is_a_throttle_even_with_status_503() {
        for code in THROTTLES {
            assert_eq!(by_code(Action::CreateVolume, 503, code, ""), C::Throttled, "{code}");
        }
    }

    /// Applies to InternalError, Unavailable and unknown codes with status 5xx.
    #[test]
    fn server_failure_codes_are_classified_as_ambiguous() {
        for code in ["InternalError", "InternalFailure", "Unavailable", "ServiceUnavailable"] {
            assert_eq!(by_code(Action::CreateVolume, 400, code, ""), C::Ambiguous, "{code}");
        }
        for status in [500, 502, 503, 504] {
            assert_eq!(by_code(Action::CreateVolume, status, "SomethingNew", ""), C::Ambiguous, "{status}");
        }
    }

    #[test]
    fn invalid_parameter_value_is_classified_by_its_message() {
        let root = "Unable to detach root volume 'vol-1' from instance 'i-1'";
        assert_eq!(by_code(Action::DetachVolume, 400, "OperationNotPermitted", root), C::IncorrectState);
        let class = |action, message: &str| by_code(action, 400, "InvalidParameterValue", message);
        let taken = "Invalid value '/dev/xvdaa' for unixDevice. Attachment point /dev/xvdaa is already in use";
        assert_eq!(class(Action::AttachVolume, taken), C::DeviceNameInUse);
        assert_eq!(class(Action::CreateVolume, taken), C::InvalidParameter);
        for parameter in ["volumeId", "volumes", "volume", "snapshotId", "snapshots", "instanceId"] {
            let id = format!("Value (vol-zz) for parameter {parameter} is invalid. Expected: 'vol-...'.");
            assert_eq!(class(Action::DeleteVolume, &id), C::MalformedId, "{parameter}");
        }
        let token = "Value ( t ) for parameter NextToken is invalid. The token is invalid.";
        assert_eq!(class(Action::DescribeSnapshots, token), C::BadToken);
        assert_eq!(class(Action::DescribeSnapshots, "Unable to parse pagination token"), C::BadToken);
        assert_eq!(class(Action::CreateVolume, "Value (k) for parameter kmsKeyId is invalid."), C::InvalidParameter);
    }
}

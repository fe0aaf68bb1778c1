//! What EC2's error codes mean: the one table.

use ebs_ec2::{Action, ErrorClass, Limit};

/// Codes that mean "slow down, nothing was done", with whatever HTTP status they come.
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

/// The class of an answer with a code. A code that is not in the table is definite, unless the HTTP status says that
/// the server itself failed.
pub(crate) fn by_code(action: Action, status: u16, code: &str, message: &str) -> ErrorClass {
    use ErrorClass as C;
    match code {
        code if THROTTLES.contains(&code) => C::Throttled,
        "DryRunOperation" => C::DryRunSucceeded,

        "InvalidVolume.NotFound" => C::VolumeNotFound,
        "InvalidSnapshot.NotFound" => C::SnapshotNotFound,
        "InvalidInstanceID.NotFound" => C::InstanceNotFound,
        "InvalidAttachment.NotFound" => C::AttachmentNotFound,
        "InvalidVolumeModification.NotFound" => C::ModificationNotFound,
        "InvalidVolumeID.Malformed"
        | "InvalidVolumeId.Malformed"
        | "InvalidSnapshotID.Malformed"
        | "InvalidSnapshotId.Malformed"
        | "InvalidInstanceID.Malformed"
        | "InvalidInstanceId.Malformed"
        | "InvalidID" => C::MalformedId,

        "IncorrectState" | "IncorrectInstanceState" | "IncorrectModificationState" => C::IncorrectState,
        "VolumeInUse" => C::VolumeInUse,
        "InvalidSnapshot.InUse" | "SnapshotLocked" => C::SnapshotInUse,
        "InvalidDevice.InUse" => C::DeviceNameInUse,
        "IdempotentParameterMismatch" => C::IdempotentMismatch,
        "InvalidVolume.ZoneMismatch" | "InvalidVolumeID.ZoneMismatch" => C::ZoneMismatch,
        "InsufficientVolumeCapacity" | "InsufficientCapacityOnOutpost" => C::InsufficientCapacity,
        "VolumeModificationRateExceeded" => C::ModificationCooldown,
        "SnapshotCreationPerVolumeRateExceeded" => C::SnapshotCooldown,

        "VolumeLimitExceeded" => C::LimitExceeded(Limit::Volumes),
        "SnapshotLimitExceeded" => C::LimitExceeded(Limit::Snapshots),
        "AttachmentLimitExceeded" => C::LimitExceeded(Limit::Attachments),
        "MaxIOPSLimitExceeded" | "VolumeIOPSLimit" => C::LimitExceeded(Limit::Iops),
        "VolumeModificationSizeLimitExceeded" => C::LimitExceeded(Limit::ModificationSize),
        "ConcurrentSnapshotLimitExceeded" | "PendingSnapshotLimitExceeded" => {
            C::LimitExceeded(Limit::ConcurrentSnapshots)
        }
        "TagLimitExceeded" => C::LimitExceeded(Limit::Tags),

        "InvalidNextToken" | "InvalidPaginationToken" => C::BadToken,
        "InvalidParameterValue" => parameter_value(action, message),
        "InvalidParameter"
        | "InvalidParameterCombination"
        | "InvalidParameterDependency"
        | "MissingParameter"
        | "UnknownParameter"
        | "ValidationError"
        | "MalformedQueryString"
        | "FilterLimitExceeded"
        | "InvalidFilter"
        | "InvalidAvailabilityZone"
        | "InvalidZone.NotFound"
        | "InvalidInstanceType"
        | "InvalidTagKey.Malformed"
        | "TagPolicyViolation"
        | "RequestResourceCountExceeded" => C::InvalidParameter,
        "UnsupportedOperation"
        | "Unsupported"
        | "UnknownVolumeType"
        | "VolumeTypeNotAvailableInZone"
        | "EncryptedVolumesNotSupported"
        | "InvalidAction" => C::Unsupported,

        "AuthFailure"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "IncompleteSignature"
        | "InvalidAccessKeyId"
        | "InvalidClientTokenId"
        | "InvalidSecurity"
        | "MissingAuthenticationToken"
        | "RequestExpired"
        | "SignatureDoesNotMatch"
        | "UnrecognizedClientException" => C::Unauthenticated,
        "UnauthorizedOperation"
        | "AccessDenied"
        | "AccessDeniedException"
        | "Blocked"
        | "OptInRequired"
        | "PendingVerification" => C::Unauthorized,
        "CustomerKeyHasBeenRevoked" => C::Encryption,
        code if code.to_ascii_lowercase().contains("kms") => C::Encryption,

        "InternalError"
        | "InternalFailure"
        | "InternalServerError"
        | "Unavailable"
        | "ServiceUnavailable"
        | "RequestTimeout"
        | "RequestTimeoutException" => C::Ambiguous,
        _ if status >= 500 => C::Ambiguous,
        _ => C::Other,
    }
}

/// `InvalidParameterValue` covers several meanings that only the message tells apart.
fn parameter_value(action: Action, message: &str) -> ErrorClass {
    let message = message.to_ascii_lowercase();
    let malformed_id =
        ["volumeid", "volume", "snapshotid", "snapshot", "instanceid", "instance", "resourceid", "sourcevolumeid"]
            .iter()
            .any(|name| message.contains(&format!("for parameter {name} is invalid")));
    if malformed_id {
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
    use ErrorClass as C;

    /// Every row of `ebs-cloud.md` 10 and the codes below its table.
    const ROWS: &[(&str, C)] = &[
        ("InvalidInstanceID.NotFound", C::InstanceNotFound),
        ("InvalidVolume.NotFound", C::VolumeNotFound),
        ("InvalidSnapshot.NotFound", C::SnapshotNotFound),
        ("InvalidAttachment.NotFound", C::AttachmentNotFound),
        ("IncorrectState", C::IncorrectState),
        ("InvalidVolumeModification.NotFound", C::ModificationNotFound),
        ("IdempotentParameterMismatch", C::IdempotentMismatch),
        ("VolumeLimitExceeded", C::LimitExceeded(Limit::Volumes)),
        ("MaxIOPSLimitExceeded", C::LimitExceeded(Limit::Iops)),
        ("VolumeModificationSizeLimitExceeded", C::LimitExceeded(Limit::ModificationSize)),
        ("AttachmentLimitExceeded", C::LimitExceeded(Limit::Attachments)),
        ("SnapshotLimitExceeded", C::LimitExceeded(Limit::Snapshots)),
        ("ConcurrentSnapshotLimitExceeded", C::LimitExceeded(Limit::ConcurrentSnapshots)),
        ("TagLimitExceeded", C::LimitExceeded(Limit::Tags)),
        ("InvalidParameter", C::InvalidParameter),
        ("InvalidParameterCombination", C::InvalidParameter),
        ("InvalidParameterDependency", C::InvalidParameter),
        ("InvalidParameterValue", C::InvalidParameter),
        ("UnknownParameter", C::InvalidParameter),
        ("ValidationError", C::InvalidParameter),
        ("FilterLimitExceeded", C::InvalidParameter),
        ("UnknownVolumeType", C::Unsupported),
        ("UnsupportedOperation", C::Unsupported),
        ("DryRunOperation", C::DryRunSucceeded),
        ("VolumeInUse", C::VolumeInUse),
        ("InvalidVolume.ZoneMismatch", C::ZoneMismatch),
        ("InsufficientVolumeCapacity", C::InsufficientCapacity),
        ("VolumeModificationRateExceeded", C::ModificationCooldown),
        ("SnapshotCreationPerVolumeRateExceeded", C::SnapshotCooldown),
        ("InvalidSnapshot.InUse", C::SnapshotInUse),
        ("UnauthorizedOperation", C::Unauthorized),
        ("AuthFailure", C::Unauthenticated),
        ("SignatureDoesNotMatch", C::Unauthenticated),
        ("KmsKeyDisabledException", C::Encryption),
        ("InvalidVolumeID.Malformed", C::MalformedId),
        ("InvalidNextToken", C::BadToken),
        ("AnythingElse", C::Other),
    ];

    #[test]
    fn each_code_has_its_meaning_whatever_the_status() {
        for (code, class) in ROWS {
            assert_eq!(by_code(Action::CreateVolume, 400, code, ""), *class, "{code}");
        }
        // A definite code stays definite when it comes with a server error.
        for (code, class) in ROWS.iter().filter(|(code, _)| *code != "AnythingElse") {
            assert_eq!(by_code(Action::CreateVolume, 503, code, ""), *class, "{code}");
        }
    }

    #[test]
    fn a_throttle_is_a_throttle_even_with_503() {
        for code in THROTTLES {
            assert_eq!(by_code(Action::CreateVolume, 503, code, ""), C::Throttled, "{code}");
        }
    }

    #[test]
    fn a_server_that_failed_leaves_the_outcome_open() {
        for code in ["InternalError", "InternalFailure", "Unavailable", "ServiceUnavailable"] {
            assert_eq!(by_code(Action::CreateVolume, 400, code, ""), C::Ambiguous, "{code}");
        }
        for status in [500, 502, 503, 504] {
            assert_eq!(by_code(Action::CreateVolume, status, "SomethingNew", ""), C::Ambiguous, "{status}");
        }
    }

    #[test]
    fn an_invalid_parameter_value_is_told_apart_by_its_message() {
        let class = |action, message| by_code(action, 400, "InvalidParameterValue", message);
        let taken = "Invalid value '/dev/xvdaa' for unixDevice. Attachment point /dev/xvdaa is already in use";
        assert_eq!(class(Action::AttachVolume, taken), C::DeviceNameInUse);
        assert_eq!(class(Action::CreateVolume, taken), C::InvalidParameter);
        let id = "Value (vol-zz) for parameter volumeId is invalid. Expected: 'vol-...'.";
        assert_eq!(class(Action::DeleteVolume, id), C::MalformedId);
        assert_eq!(class(Action::DeleteSnapshot, "Value (x) for parameter snapshotId is invalid."), C::MalformedId);
        assert_eq!(class(Action::DescribeSnapshots, "Unable to parse pagination token"), C::BadToken);
        assert_eq!(class(Action::CreateVolume, "Value (k) for parameter kmsKeyId is invalid."), C::InvalidParameter);
    }
}

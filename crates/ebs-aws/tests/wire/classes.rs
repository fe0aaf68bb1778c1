//! The class of each code of EC2, with real HTTP replies.

use ebs_ec2::{
    AttachRequest, Attachments, DeviceName, Ec2Error,
    ErrorClass::{self, *},
    Gib, InstanceId, Limit, ModifyVolume, PageRequest, SnapshotQuery, Snapshots, VolumeId, Volumes,
};

use crate::server::{Reply, Wire};

fn vol() -> VolumeId {
    VolumeId::parse("vol-1").unwrap()
}

/// Returns the errors of a deletion and a describe that get this answer.
async fn answers(status: u16, code: &str, message: &str) -> [Ec2Error; 2] {
    let wire = Wire::answering([Reply::error(status, code, message)]).await;
    let errors = [
        wire.ec2.delete_volume(&vol()).await.unwrap_err(),
        wire.ec2.describe_volumes(&crate::server::managed_volumes(), &PageRequest::default()).await.unwrap_err(),
    ];
    if status < 500 {
        assert_eq!(wire.requests().len(), 2, "{code} was sent again");
    }
    errors
}

/// Checks that a code has its class for every action, and keeps its message and request id.
async fn means(status: u16, code: &str, class: ErrorClass) {
    for error in answers(status, code, "EC2's words").await {
        assert_eq!(error.class, class, "{error}");
        assert_eq!(error.code.as_deref(), Some(code));
        assert_eq!(error.message, "EC2's words");
        assert_eq!(error.request_id, Some(format!("req-of-{code}")));
    }
}

macro_rules! rows {
    ($($(#[$comment:meta])* fn $name:ident() = $status:literal $code:literal => $class:expr;)*) => {
        $($(#[$comment])*
        #[tokio::test]
        async fn $name() {
            means($status, $code, $class).await;
        })*
    };
}

rows! {
    /// The instance does not exist.
    fn missing_instance() = 400 "InvalidInstanceID.NotFound" => InstanceNotFound;
    /// The volume does not exist.
    fn missing_volume() = 400 "InvalidVolume.NotFound" => VolumeNotFound;
    /// The snapshot does not exist.
    fn missing_snapshot() = 400 "InvalidSnapshot.NotFound" => SnapshotNotFound;
    /// Detach must distinguish InvalidAttachment.NotFound and IncorrectState.
    fn missing_attachment() = 400 "InvalidAttachment.NotFound" => AttachmentNotFound;
    fn incorrect_state() = 400 "IncorrectState" => IncorrectState;
    /// The volume was never modified.
    fn missing_modification() = 400 "InvalidVolumeModification.NotFound" => ModificationNotFound;
    fn token_with_other_parameters() = 400 "IdempotentParameterMismatch" => IdempotentMismatch;
    fn too_many_volumes() = 400 "VolumeLimitExceeded" => LimitExceeded(Limit::Volumes);
    fn too_many_iops() = 400 "MaxIOPSLimitExceeded" => LimitExceeded(Limit::Iops);
    fn too_much_in_modification() = 400 "VolumeModificationSizeLimitExceeded" => LimitExceeded(Limit::ModificationSize);
    fn too_many_attachments() = 400 "AttachmentLimitExceeded" => LimitExceeded(Limit::Attachments);
    fn too_many_snapshots() = 400 "SnapshotLimitExceeded" => LimitExceeded(Limit::Snapshots);
    fn too_many_tags() = 400 "TagLimitExceeded" => LimitExceeded(Limit::Tags);
    fn too_many_pending_snapshots() = 400 "ConcurrentSnapshotLimitExceeded" => LimitExceeded(Limit::ConcurrentSnapshots);
    fn conflicting_parameters() = 400 "InvalidParameterCombination" => InvalidParameter;
    /// The other codes about parameters are invalid parameters. Unknown types and features are unsupported.
    fn invalid_parameter() = 400 "InvalidParameter" => InvalidParameter;
    fn dependent_parameter() = 400 "InvalidParameterDependency" => InvalidParameter;
    fn invalid_parameter_value() = 400 "InvalidParameterValue" => InvalidParameter;
    fn unknown_parameter() = 400 "UnknownParameter" => InvalidParameter;
    fn validation_error() = 400 "ValidationError" => InvalidParameter;
    fn too_many_filter_values() = 400 "FilterLimitExceeded" => InvalidParameter;
    fn unknown_volume_type() = 400 "UnknownVolumeType" => Unsupported;
    fn unsupported_operation() = 400 "UnsupportedOperation" => Unsupported;
    /// DryRunOperation is the success of a dry run.
    fn successful_dry_run() = 412 "DryRunOperation" => DryRunSucceeded;
    /// The reference driver does not classify the following codes.
    fn attached_volume() = 400 "VolumeInUse" => VolumeInUse;
    fn another_zone() = 400 "InvalidVolume.ZoneMismatch" => ZoneMismatch;
    fn insufficient_capacity() = 400 "InsufficientVolumeCapacity" => InsufficientCapacity;
    fn modification_too_soon() = 400 "VolumeModificationRateExceeded" => ModificationCooldown;
    fn snapshot_too_soon() = 400 "SnapshotCreationPerVolumeRateExceeded" => SnapshotCooldown;
    fn missing_permission() = 403 "UnauthorizedOperation" => Unauthorized;
    fn disabled_kms_key() = 400 "KmsKeyDisabledException" => Encryption;
    fn malformed_kms_key() = 400 "InvalidKmsKeyId.Malformed" => Encryption;
    fn wrong_credentials() = 401 "AuthFailure" => Unauthenticated;
    fn expired_request() = 400 "RequestExpired" => Unauthenticated;
    fn snapshot_in_use() = 400 "InvalidSnapshot.InUse" => SnapshotInUse;
    /// Further codes that EC2 was quoted with.
    fn incorrect_instance_state() = 400 "IncorrectInstanceState" => IncorrectInstanceState;
    fn operation_not_permitted() = 400 "OperationNotPermitted" => NotPermitted;
    fn invalid_request() = 400 "InvalidRequest" => InvalidParameter;
    fn volume_type_not_in_region() = 400 "VolumeTypeNotAvailableInRegion" => Unsupported;
    fn volume_of_another_service() = 400 "UnsupportedOperationException" => Unsupported;
    fn locked_snapshot() = 400 "SnapshotLocked" => SnapshotInUse;
    fn internal_server_error() = 500 "InternalError" => Ambiguous;
    fn unavailable_server() = 503 "Unavailable" => Ambiguous;
    fn unknown_code_with_a_server_error() = 500 "SomethingNew" => Ambiguous;
    /// An unknown code is a definite error, unless the status reports a failure of the server.
    fn unknown_code() = 400 "SomethingNew" => Other;
    fn throttling() = 400 "Throttling" => Throttled;
    fn throttling_exception() = 400 "ThrottlingException" => Throttled;
    fn throttled_exception() = 400 "ThrottledException" => Throttled;
    fn request_throttled_exception() = 400 "RequestThrottledException" => Throttled;
    fn request_throttled() = 400 "RequestThrottled" => Throttled;
    fn too_many_requests_exception() = 400 "TooManyRequestsException" => Throttled;
    fn provisioned_throughput_exceeded() = 400 "ProvisionedThroughputExceededException" => Throttled;
    fn transaction_in_progress() = 400 "TransactionInProgressException" => Throttled;
    /// Each of the fourteen throttle codes is a throttle with any status, and is not retried.
    fn request_limit_exceeded() = 503 "RequestLimitExceeded" => Throttled;
    fn bandwidth_limit_exceeded() = 400 "BandwidthLimitExceeded" => Throttled;
    fn limit_exceeded_exception() = 400 "LimitExceededException" => Throttled;
    fn slow_down() = 503 "SlowDown" => Throttled;
    fn prior_request_not_complete() = 400 "PriorRequestNotComplete" => Throttled;
    fn ec2_throttled_exception() = 400 "EC2ThrottledException" => Throttled;
}

/// The message distinguishes the causes, only for AttachVolume.
#[tokio::test]
async fn device_name_in_use_is_detected_by_the_message() {
    let taken = "Invalid value '/dev/xvdaa' for unixDevice. Attachment point /dev/xvdaa is already in use";
    let wire = Wire::answering([Reply::error(400, "InvalidParameterValue", taken)]).await;
    let (volume, device) = (vol(), DeviceName::new("/dev/xvdaa"));
    let attach = AttachRequest { volume, instance: InstanceId::parse("i-1").unwrap(), device, card: None };
    assert_eq!(wire.ec2.attach_volume(&attach).await.unwrap_err().class, DeviceNameInUse);
    let modify = ModifyVolume { volume: vol(), size: Some(Gib(2)), volume_type: None, iops: None, throughput: None };
    assert_eq!(wire.ec2.modify_volume(&modify).await.unwrap_err().class, InvalidParameter);
}

/// The messages differ between actions.
#[tokio::test]
async fn malformed_id_is_detected_by_the_message() {
    for parameter in ["volumeId", "volumes", "volume", "snapshotId", "snapshots", "instanceId"] {
        let malformed = format!("Value (vol-zz) for parameter {parameter} is invalid. Expected: 'vol-...'.");
        for error in answers(400, "InvalidParameterValue", &malformed).await {
            assert_eq!(error.class, MalformedId, "{error}");
        }
    }
    for error in answers(400, "InvalidParameterValue", "Value (x) for parameter volumeType is invalid.").await {
        assert_eq!(error.class, InvalidParameter, "{error}");
    }
}

/// The message distinguishes a modification in progress, a root volume, and fast restores.
#[tokio::test]
async fn ambiguous_codes_are_classified_by_the_message() {
    let fast = "The snapshot snap-1 is currently enabled for fast restores in us-west-2a. Fast snapshot restores must be \
                disabled within all Availability Zones before the snapshot may be deleted.";
    for (code, words, class) in [
        (
            "OperationNotPermitted",
            "Cannot attach volume vol-1 when it is in modification state: MODIFYING",
            BeingModified,
        ),
        ("OperationNotPermitted", "Unable to detach root volume 'vol-1' from instance 'i-1'", IncorrectState),
        ("InvalidSnapshot.InUse", fast, FastRestoresEnabled),
        ("InvalidSnapshot.InUse", "The snapshot snap-1 is currently in use by ami-1", SnapshotInUse),
    ] {
        for error in answers(400, code, words).await {
            assert_eq!(error.class, class, "{error}");
        }
    }
}

#[tokio::test]
async fn unknown_page_token_has_its_class() {
    for (code, message) in [
        ("InvalidPaginationToken", "x"),
        ("InvalidNextToken", "x"),
        ("InvalidParameterValue", "Value ( t ) for parameter NextToken is invalid. The token is invalid."),
    ] {
        let wire = Wire::answering([Reply::error(400, code, message)]).await;
        let page = PageRequest { max_results: Some(5), token: Some("t".into()) };
        let query = SnapshotQuery::Owned { volume: None };
        assert_eq!(wire.ec2.describe_snapshots(&query, &page).await.unwrap_err().class, BadToken);
    }
}

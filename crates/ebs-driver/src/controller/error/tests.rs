use super::*;
use crate::operation::{Key, OperationError};
use crate::status::chain;

#[test]
fn operation_without_an_outcome_never_has_a_final_code() {
    let key = Key::CreateVolume("pvc-1".to_owned());
    let unknown: OperationError<ControllerError> =
        OperationError::OutcomeUnknown { key: key.clone(), cause: String::new() };
    assert_eq!(unknown.meaning(), Meaning::InProgress);
    let shutdown: OperationError<ControllerError> = OperationError::ShuttingDown(key);
    assert_eq!(shutdown.meaning(), Meaning::Unavailable);
}

#[test]
fn each_error_for_an_invalid_request_has_the_expected_code() {
    let id = || "x".to_owned();
    let rows = [
        (ControllerError::Missing { field: "name" }, Meaning::InvalidArgument),
        (ControllerError::EmptySource, Meaning::InvalidArgument),
        (ControllerError::MaxEntries(-1), Meaning::InvalidArgument),
        (ControllerError::NodeLocal { handle: id() }, Meaning::InvalidArgument),
        (ControllerError::NodeLocalOff { handle: id() }, Meaning::InvalidArgument),
        (ControllerError::NodeLocalHandle { handle: id() }, Meaning::InvalidArgument),
        (ControllerError::NodeLocalOnHyperPod { handle: id(), node: id() }, Meaning::InvalidArgument),
        (ControllerError::NotMultiAttach { volume: id(), why: "", published: false }, Meaning::InvalidArgument),
        (ControllerError::NotMultiAttach { volume: id(), why: "", published: true }, Meaning::AlreadyExists),
        (ControllerError::NoSuchId { kind: "volume", id: id() }, Meaning::NotFound),
        (ControllerError::NoSuchSnapshot { snapshot: id() }, Meaning::NotFound),
        (ControllerError::NoSuchToken(id()), Meaning::BadPageToken),
        (ControllerError::ZoneUnknown { volume: id() }, Meaning::InProgress),
        (
            ControllerError::OutpostUnknown {
                volume: id(),
                cause: ebs_ec2::OutpostArn::parse("op-1").expect_err("no ARN"),
            },
            Meaning::InProgress,
        ),
    ];
    for (error, meaning) in rows {
        assert_eq!(error.meaning(), meaning, "{error}");
    }
}

#[test]
fn cloud_error_appears_only_once_in_the_message() {
    let error = CloudErrorKind::LimitExceeded.error("create pvc-1: a quota is reached");
    let error = ControllerError::during(Rpc::CreateVolume)(error);
    assert_eq!(chain(&error), "create pvc-1: a quota is reached");
}

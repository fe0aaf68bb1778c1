use ebs_cloud::Object;
use ebs_types::{SnapshotId, VolumeId};

use super::*;
use crate::operation::Key;
use crate::status::chain;

const RPCS: [Rpc; 11] = [
    Rpc::CreateVolume,
    Rpc::DeleteVolume,
    Rpc::ControllerPublishVolume,
    Rpc::ControllerUnpublishVolume,
    Rpc::ControllerExpandVolume,
    Rpc::CreateSnapshot,
    Rpc::DeleteSnapshot,
    Rpc::ListVolumes,
    Rpc::ListSnapshots,
    Rpc::GetSnapshot,
    Rpc::ValidateVolumeCapabilities,
];

fn volume() -> Object {
    Object::Volume(VolumeId::parse("vol-1").expect("an id"))
}

fn snapshot() -> Object {
    Object::Snapshot(SnapshotId::parse("snap-1").expect("an id"))
}

/// Every outcome of the policy and what it means to the caller, CreateVolume first, then all other RPCs.
fn rows() -> [(CloudError, Meaning, Meaning); 15] {
    let message = || "m".to_owned();
    let both = |error, meaning| (error, meaning, meaning);
    [
        (CloudError::NotFound { object: volume(), cause: None }, Meaning::InProgress, Meaning::NotFound),
        both(CloudError::SourceNotFound { object: snapshot(), cause: None }, Meaning::NotFound),
        both(CloudError::AlreadyExists { message: message(), cause: None }, Meaning::AlreadyExists),
        both(CloudError::InvalidArgument { message: message(), cause: None }, Meaning::InvalidArgument),
        both(CloudError::OutOfRange { message: message(), cause: None }, Meaning::OutOfRange),
        both(CloudError::LimitExceeded { message: message(), cause: None }, Meaning::ResourceExhausted),
        both(CloudError::InsufficientCapacity { message: message(), cause: None }, Meaning::ResourceExhausted),
        both(CloudError::FailedPrecondition { message: message(), cause: None }, Meaning::FailedPrecondition),
        both(CloudError::InProgress { message: message(), cause: None }, Meaning::InProgress),
        both(CloudError::OutcomeUnknown { message: message(), cause: None }, Meaning::InProgress),
        both(CloudError::Abandoned { step: message() }, Meaning::InProgress),
        both(CloudError::Unavailable { message: message(), cause: None }, Meaning::Unavailable),
        both(CloudError::Unauthorized { message: message(), cause: None }, Meaning::PermissionDenied),
        both(CloudError::BadPageToken { token: message(), cause: None }, Meaning::BadPageToken),
        both(CloudError::Internal { message: message(), cause: None }, Meaning::Internal),
    ]
}

#[test]
fn every_outcome_of_every_rpc_has_its_code() {
    for (error, on_create, elsewhere) in rows() {
        for rpc in RPCS {
            let expected = if rpc == Rpc::CreateVolume { on_create } else { elsewhere };
            let got = ControllerError::Cloud(AtRpc { rpc, error: error.clone() }).meaning();
            assert_eq!(got, expected, "{rpc:?}: {error:?}");
        }
    }
}

#[test]
fn what_is_not_proven_never_has_a_final_code() {
    let unproven = |error: &CloudError| {
        matches!(
            error,
            CloudError::InProgress { .. }
                | CloudError::OutcomeUnknown { .. }
                | CloudError::Abandoned { .. }
                | CloudError::Unavailable { .. }
        )
    };
    for (error, ..) in rows().into_iter().filter(|(error, ..)| unproven(error)) {
        for rpc in RPCS {
            let error = ControllerError::Cloud(AtRpc { rpc, error: error.clone() });
            assert!(matches!(error.meaning(), Meaning::InProgress | Meaning::Unavailable), "{rpc:?}: {error}");
            assert!(error.next_step().is_some_and(|next| next.contains("again")), "{error}");
        }
    }
    let key = Key::CreateVolume("pvc-1".to_owned());
    let unknown: OperationError<ControllerError> =
        OperationError::OutcomeUnknown { key: key.clone(), cause: String::new() };
    assert_eq!(unknown.meaning(), Meaning::InProgress);
    let shutdown: OperationError<ControllerError> = OperationError::ShuttingDown(key);
    assert_eq!(shutdown.meaning(), Meaning::Unavailable);
}

#[test]
fn wrong_requests_have_codes_that_say_so() {
    let id = || "x".to_owned();
    let rows = [
        (ControllerError::Missing { field: "name" }, Meaning::InvalidArgument),
        (ControllerError::EmptySource, Meaning::InvalidArgument),
        (ControllerError::Readonly { volume: id() }, Meaning::InvalidArgument),
        (ControllerError::MaxEntries(-1), Meaning::InvalidArgument),
        (ControllerError::NotYet { what: "node", id: id() }, Meaning::InvalidArgument),
        (ControllerError::NotMultiAttach { volume: id(), why: "", published: false }, Meaning::InvalidArgument),
        (ControllerError::NotMultiAttach { volume: id(), why: "", published: true }, Meaning::AlreadyExists),
        (ControllerError::NoSuchId { kind: "volume", id: id() }, Meaning::NotFound),
        (ControllerError::NoSuchSnapshot { snapshot: id() }, Meaning::NotFound),
        (ControllerError::NoSuchToken(id()), Meaning::BadPageToken),
        (ControllerError::ZoneUnknown { volume: id() }, Meaning::InProgress),
    ];
    for (error, meaning) in rows {
        assert_eq!(error.meaning(), meaning, "{error}");
    }
}

#[test]
fn the_policy_s_words_are_said_once() {
    let error = CloudError::LimitExceeded { message: "create pvc-1: a quota is reached".to_owned(), cause: None };
    let error = refused(AtRpc { rpc: Rpc::CreateVolume, error });
    assert_eq!(chain(&error), "create pvc-1: a quota is reached");
}

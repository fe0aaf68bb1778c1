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
    let both = |kind, meaning| (kind, meaning, meaning);
    [
        (CloudErrorKind::NotFound(volume()), Meaning::InProgress, Meaning::NotFound),
        both(CloudErrorKind::SourceNotFound(snapshot()), Meaning::NotFound),
        both(CloudErrorKind::AlreadyExists, Meaning::AlreadyExists),
        both(CloudErrorKind::InvalidArgument, Meaning::InvalidArgument),
        both(CloudErrorKind::OutOfRange, Meaning::OutOfRange),
        both(CloudErrorKind::LimitExceeded, Meaning::ResourceExhausted),
        both(CloudErrorKind::InsufficientCapacity, Meaning::ResourceExhausted),
        both(CloudErrorKind::FailedPrecondition, Meaning::FailedPrecondition),
        both(CloudErrorKind::InProgress, Meaning::InProgress),
        both(CloudErrorKind::OutcomeUnknown, Meaning::InProgress),
        both(CloudErrorKind::Abandoned, Meaning::InProgress),
        both(CloudErrorKind::Unavailable, Meaning::Unavailable),
        both(CloudErrorKind::Unauthorized, Meaning::PermissionDenied),
        both(CloudErrorKind::BadPageToken, Meaning::BadPageToken),
        both(CloudErrorKind::Internal, Meaning::Internal),
    ]
    .map(|(kind, on_create, elsewhere)| (kind.error("m"), on_create, elsewhere))
}

/// Every outcome of EC2 policy has its code for every controller RPC.
///
/// Rule: controller.md 5.2, C2, C3, C10, C16, C18, C24, C27
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

/// What is not proven is Aborted or Unavailable, with the advice to call again.
///
/// Rule: D-16; sidecars.md 1
#[test]
fn what_is_not_proven_never_has_a_final_code() {
    let unproven = |error: &CloudError| !error.kind.is_final();
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

/// Wrong requests have codes that say so.
///
/// Rule: controller.md 5.2; D-17
#[test]
fn wrong_requests_have_codes_that_say_so() {
    let id = || "x".to_owned();
    let rows = [
        (ControllerError::Missing { field: "name" }, Meaning::InvalidArgument),
        (ControllerError::EmptySource, Meaning::InvalidArgument),
        (ControllerError::Readonly { volume: id() }, Meaning::InvalidArgument),
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
                cause: ebs_types::OutpostArn::parse("op-1").expect_err("no ARN"),
            },
            Meaning::InProgress,
        ),
    ];
    for (error, meaning) in rows {
        assert_eq!(error.meaning(), meaning, "{error}");
    }
}

#[test]
fn the_policy_s_words_are_said_once() {
    let error = CloudErrorKind::LimitExceeded.error("create pvc-1: a quota is reached");
    let error = refused(AtRpc { rpc: Rpc::CreateVolume, error });
    assert_eq!(chain(&error), "create pvc-1: a quota is reached");
}

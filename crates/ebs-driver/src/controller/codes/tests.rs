use ebs_cloud::Object;
use ebs_ec2::{SnapshotId, VolumeId};

use super::*;
use crate::status::{IntoStatus, to_status};

/// Returns the outcome after `kind` in the order of this match, or the first one for `None`. A new outcome does not
/// compile until it has an arm here, and then fails the test until the table has its row.
fn after(kind: Option<&CloudErrorKind>) -> Option<CloudErrorKind> {
    use CloudErrorKind as Kind;
    Some(match kind {
        None => Kind::NotFound(Object::Volume(VolumeId::parse("vol-1").expect("an id"))),
        Some(Kind::NotFound(_)) => Kind::SourceNotFound(Object::Snapshot(SnapshotId::parse("snap-1").expect("an id"))),
        Some(Kind::SourceNotFound(_)) => Kind::AlreadyExists,
        Some(Kind::AlreadyExists) => Kind::InvalidArgument,
        Some(Kind::InvalidArgument) => Kind::OutOfRange,
        Some(Kind::OutOfRange) => Kind::LimitExceeded,
        Some(Kind::LimitExceeded) => Kind::InsufficientCapacity,
        Some(Kind::InsufficientCapacity) => Kind::FailedPrecondition,
        Some(Kind::FailedPrecondition) => Kind::InProgress,
        Some(Kind::InProgress) => Kind::OutcomeUnknown,
        Some(Kind::OutcomeUnknown) => Kind::Abandoned,
        Some(Kind::Abandoned) => Kind::Unavailable,
        Some(Kind::Unavailable) => Kind::Unauthenticated,
        Some(Kind::Unauthenticated) => Kind::Unauthorized,
        Some(Kind::Unauthorized) => Kind::BadPageToken,
        Some(Kind::BadPageToken) => Kind::Internal,
        Some(Kind::Internal) => return None,
    })
}

fn all() -> impl Iterator<Item = CloudErrorKind> {
    std::iter::successors(after(None), |kind| after(Some(kind)))
}

/// An outcome, the code for most RPCs, and the RPCs with a different code.
type Row = (&'static str, &'static str, &'static [(Rpc, &'static str)]);

/// Every outcome, in the order of [`after`].
const TABLE: [Row; 16] = [
    (
        "NotFound",
        "NotFound",
        &[
            (Rpc::CreateVolume, "Aborted"),
            (Rpc::DeleteVolume, "OK"),
            (Rpc::DeleteSnapshot, "OK"),
            (Rpc::ControllerUnpublishVolume, "OK"),
            (Rpc::ListVolumes, "OK"),
            (Rpc::ListSnapshots, "OK"),
        ],
    ),
    ("SourceNotFound", "NotFound", &[]),
    ("AlreadyExists", "AlreadyExists", &[]),
    ("InvalidArgument", "InvalidArgument", &[]),
    ("OutOfRange", "OutOfRange", &[]),
    ("LimitExceeded", "ResourceExhausted", &[]),
    ("InsufficientCapacity", "ResourceExhausted", &[]),
    ("FailedPrecondition", "FailedPrecondition", &[]),
    ("InProgress", "Aborted", &[]),
    ("OutcomeUnknown", "Aborted", &[]),
    ("Abandoned", "Aborted", &[]),
    ("Unavailable", "Unavailable", &[]),
    ("Unauthenticated", "Unauthenticated", &[]),
    ("Unauthorized", "PermissionDenied", &[]),
    ("BadPageToken", "Aborted", &[]),
    ("Internal", "Internal", &[]),
];

fn code(rpc: Rpc, kind: CloudErrorKind) -> String {
    match settled::<()>(rpc, Err(kind.error("m"))) {
        Ok(()) => "OK".to_owned(),
        Err(error) => format!("{:?}", to_status(&error).code()),
    }
}

/// The codes are ResourceExhausted for a quota or a shortage, OutOfRange for a size, FailedPrecondition for a request
/// that must wait for another action, Unauthenticated for credentials that EC2 rejects, and PermissionDenied for
/// credentials without the permission. For a missing object the code is NotFound, or OK if the request removes the
/// object.
#[test]
fn every_cloud_outcome_has_the_expected_code_for_every_rpc() {
    let kinds: Vec<CloudErrorKind> = all().collect();
    assert_eq!(kinds.len(), TABLE.len());
    for (kind, (name, usual, others)) in kinds.into_iter().zip(TABLE) {
        assert!(format!("{kind:?}").starts_with(name), "{kind:?} has the row {name}");
        for rpc in Rpc::ALL {
            let expected = others.iter().find(|(other, _)| other == rpc).map_or(usual, |(_, code)| code);
            assert_eq!(code(*rpc, kind.clone()), expected, "{rpc}: {kind:?}");
        }
    }
}

/// Every outcome that is not proven has the code Aborted or Unavailable, and the advice to call again. No other outcome
/// has these codes, with two exceptions.
#[test]
fn unproven_outcome_never_has_a_final_code() {
    for kind in all().filter(|kind| !kind.is_final()) {
        for rpc in Rpc::ALL {
            let code = code(*rpc, kind.clone());
            assert!(code == "Aborted" || code == "Unavailable", "{rpc}: {kind:?} is {code}");
            let error = ControllerError::during(*rpc)(kind.clone().error("m"));
            assert!(error.next_step().is_some_and(|next| next.contains("again")), "{rpc}: {error}");
        }
    }
    // The exceptions: an invalid page token, and a volume that disappeared after its creation.
    let also = |rpc: Rpc, kind: &CloudErrorKind| match kind {
        CloudErrorKind::BadPageToken => true,
        CloudErrorKind::NotFound(_) => rpc == Rpc::CreateVolume,
        _ => false,
    };
    for kind in all().filter(CloudErrorKind::is_final) {
        for rpc in Rpc::ALL.iter().filter(|rpc| !also(**rpc, &kind)) {
            let code = code(*rpc, kind.clone());
            assert!(
                code != "Aborted" && code != "Unavailable",
                "{rpc}: {kind:?} is {code}, and a repeated call does not help"
            );
        }
    }
}

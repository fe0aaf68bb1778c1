use ebs_cloud::Object;
use ebs_types::{SnapshotId, VolumeId};

use super::*;
use crate::status::{IntoStatus, to_status};

/// The outcome after that one, first after none: a new one does not compile before it has its place, nor passes before it
/// has its row.
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

/// An outcome, its code, and the RPCs that have another one.
type Row = (&'static str, &'static str, &'static [(Rpc, &'static str)]);

/// Every outcome in its order.
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

/// Every outcome of EC2 policy has its code for every RPC: quota and shortage are ResourceExhausted, a size OutOfRange, what must
/// wait for something else FailedPrecondition, credentials that EC2 does not accept Unauthenticated and those that do not
/// allow it PermissionDenied; a missing object is NotFound, or OK where it was to be gone.
#[test]
fn every_outcome_of_every_rpc_has_its_code() {
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

/// What is not proven is Aborted or Unavailable for every RPC, with the advice to call again; nothing else is.
#[test]
fn what_is_not_proven_never_has_a_final_code() {
    for kind in all().filter(|kind| !kind.is_final()) {
        for rpc in Rpc::ALL {
            let code = code(*rpc, kind.clone());
            assert!(code == "Aborted" || code == "Unavailable", "{rpc}: {kind:?} is {code}");
            let error = ControllerError::at(*rpc)(kind.clone().error("m"));
            assert!(error.next_step().is_some_and(|next| next.contains("again")), "{rpc}: {error}");
        }
    }
    // A token of a list, and a volume that was accepted and is gone, are asked for again too.
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
                "{rpc}: {kind:?} is {code}, and calling again is no use"
            );
        }
    }
}

//! The table of codes: what an outcome of EC2 policy means to whoever called which RPC. Neither match has a
//! wildcard: a new outcome or RPC does not compile without its row.

use ebs_cloud::{CloudError, CloudErrorKind};

use super::ControllerError;
use crate::rpc::Rpc;
use crate::status::Meaning;

/// What the caller is answered; `None`: what was asked for is so, and the answer is OK. No row gives a final code to an
/// outcome that is not proven.
pub(super) fn meaning(rpc: Rpc, kind: &CloudErrorKind) -> Option<Meaning> {
    Some(match kind {
        CloudErrorKind::NotFound(_) => return of_missing(rpc),
        CloudErrorKind::SourceNotFound(_) => Meaning::NotFound,
        CloudErrorKind::AlreadyExists => Meaning::AlreadyExists,
        CloudErrorKind::InvalidArgument => Meaning::InvalidArgument,
        CloudErrorKind::OutOfRange => Meaning::OutOfRange,
        CloudErrorKind::LimitExceeded | CloudErrorKind::InsufficientCapacity => Meaning::ResourceExhausted,
        CloudErrorKind::FailedPrecondition => Meaning::FailedPrecondition,
        CloudErrorKind::InProgress | CloudErrorKind::OutcomeUnknown | CloudErrorKind::Abandoned => Meaning::InProgress,
        CloudErrorKind::Unavailable => Meaning::Unavailable,
        CloudErrorKind::Unauthenticated => Meaning::Unauthenticated,
        CloudErrorKind::Unauthorized => Meaning::PermissionDenied,
        CloudErrorKind::BadPageToken => Meaning::BadPageToken,
        CloudErrorKind::Internal => Meaning::Internal,
    })
}

/// What it means that the object of the request does not exist.
fn of_missing(rpc: Rpc) -> Option<Meaning> {
    match rpc {
        // The volume was accepted and is gone: whether it comes back must be looked at again.
        Rpc::CreateVolume => Some(Meaning::InProgress),
        // What does not exist is deleted, is attached to nothing, and is in no list.
        Rpc::DeleteVolume
        | Rpc::DeleteSnapshot
        | Rpc::ControllerUnpublishVolume
        | Rpc::ListVolumes
        | Rpc::ListSnapshots => None,
        Rpc::ControllerPublishVolume
        | Rpc::ValidateVolumeCapabilities
        | Rpc::ControllerExpandVolume
        | Rpc::ControllerModifyVolume
        | Rpc::ModifyVolumeProperties
        | Rpc::CreateSnapshot
        | Rpc::GetSnapshot
        | Rpc::ControllerGetVolume
        | Rpc::ControllerListVolumeHealth
        | Rpc::ControllerGetVolumeHealth => Some(Meaning::NotFound),
        // These ask EC2 about no object.
        Rpc::GetPluginInfo
        | Rpc::GetPluginCapabilities
        | Rpc::Probe
        | Rpc::GetCapacity
        | Rpc::ControllerGetCapabilities
        | Rpc::NodeStageVolume
        | Rpc::NodeUnstageVolume
        | Rpc::NodePublishVolume
        | Rpc::NodeUnpublishVolume
        | Rpc::NodeGetVolumeStats
        | Rpc::NodeGetVolumeHealth
        | Rpc::NodeGetStorageHealth
        | Rpc::NodeExpandVolume
        | Rpc::NodeGetCapabilities
        | Rpc::NodeGetInfo
        | Rpc::GetCSIDriverModificationCapability => Some(Meaning::NotFound),
    }
}

/// The result for an RPC that may find done what it was asked for.
pub(super) fn settled<T: Default>(rpc: Rpc, result: Result<T, CloudError>) -> Result<T, ControllerError> {
    match result {
        Err(error) if meaning(rpc, &error.kind).is_none() => Ok(T::default()),
        other => other.map_err(ControllerError::at(rpc)),
    }
}

#[cfg(test)]
mod tests;

//! Maps each outcome of `ebs-cloud` to its meaning. No match has a wildcard, so a new outcome or RPC needs a row.

use ebs_cloud::{CloudError, CloudErrorKind};

use super::ControllerError;
use crate::rpc::Rpc;
use crate::status::Meaning;

/// Returns the meaning of an outcome, or `None` when the request is fulfilled. A final code requires a proven outcome.
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

fn of_missing(rpc: Rpc) -> Option<Meaning> {
    match rpc {
        // EC2 accepted the volume, which then disappeared. It may appear again, so the next call must look for it.
        Rpc::CreateVolume => Some(Meaning::InProgress),
        // The request is fulfilled: a missing object counts as deleted or detached, and lists omit it.
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
        | Rpc::ControllerGetVolumeHealth
        | Rpc::GetPluginInfo
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

/// Converts the result of an RPC. An outcome that fulfils the request becomes the default response.
pub(super) fn settled<T: Default>(rpc: Rpc, result: Result<T, CloudError>) -> Result<T, ControllerError> {
    match result {
        Err(error) if meaning(rpc, &error.kind).is_none() => Ok(T::default()),
        other => other.map_err(ControllerError::during(rpc)),
    }
}

#[cfg(test)]
mod tests;

//! The calls of the orchestrator, and the responses of a driver.

use std::collections::HashMap;

use csi_proto::csi::{
    ControllerExpandVolumeRequest, ControllerModifyVolumeRequest, ControllerPublishVolumeRequest,
    ControllerUnpublishVolumeRequest, CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest,
    DeleteVolumeRequest, Snapshot, Volume,
};
use csi_proto::modify::ModifyVolumePropertiesRequest;
use tonic::{Code, Status};

use crate::sidecar::Sidecar;

#[derive(Debug, Clone)]
pub(crate) enum Rpc {
    CreateVolume(CreateVolumeRequest),
    DeleteVolume(DeleteVolumeRequest),
    Publish(ControllerPublishVolumeRequest),
    Unpublish(ControllerUnpublishVolumeRequest),
    Expand(ControllerExpandVolumeRequest),
    Modify(ControllerModifyVolumeRequest),
    ModifyProperties(ModifyVolumePropertiesRequest),
    CreateSnapshot(CreateSnapshotRequest),
    DeleteSnapshot(DeleteSnapshotRequest),
}

#[derive(Debug, Clone)]
pub(crate) enum RpcReply {
    Volume(Volume),
    Published(HashMap<String, String>),
    Expanded(i64),
    Snapshot(Snapshot),
    Done,
}

#[derive(Debug, Clone)]
pub(crate) struct RpcError {
    pub(crate) code: Code,
    pub(crate) message: String,
}

pub(crate) type RpcResult = Result<RpcReply, RpcError>;

impl Rpc {
    pub(crate) fn sidecar(&self) -> Sidecar {
        match self {
            Self::CreateVolume(_) | Self::DeleteVolume(_) => Sidecar::Provisioner,
            Self::Publish(_) | Self::Unpublish(_) => Sidecar::Attacher,
            // The volume modifier uses the resizer's lease.
            Self::Expand(_) | Self::Modify(_) | Self::ModifyProperties(_) => Sidecar::Resizer,
            Self::CreateSnapshot(_) | Self::DeleteSnapshot(_) => Sidecar::Snapshotter,
        }
    }
}

impl RpcError {
    /// Returns whether the code lets the sidecars assume that the driver no longer works on the request.
    /// ResourceExhausted does so only for CreateVolume.
    pub(crate) fn is_final(&self, is_create_volume: bool) -> bool {
        match self.code {
            Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted => false,
            Code::ResourceExhausted => is_create_volume,
            _ => true,
        }
    }
}

impl From<Status> for RpcError {
    fn from(status: Status) -> Self {
        Self { code: status.code(), message: status.message().to_owned() }
    }
}

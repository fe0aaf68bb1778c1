//! A driver process under test: its controller service, called without a transport.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use csi_proto::csi::controller_server::Controller;
use csi_proto::csi::{
    ControllerExpandVolumeRequest, ControllerModifyVolumeRequest, ControllerPublishVolumeRequest,
    ControllerUnpublishVolumeRequest, CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest,
    DeleteVolumeRequest, Snapshot, Volume,
};
use csi_proto::modify::ModifyVolumePropertiesRequest;
use csi_proto::modify::modify_server::Modify;
use ebs_cloud::{Cloud, CloudConfig};
use ebs_driver::controller::{ControllerOptions, ControllerService};
use ebs_driver::operation::Operations;
use ebs_driver::tags::TagPolicy;
use ebs_ec2::Ec2;
use ebs_types::{ConnectionId, DriverName, Tags};
use tokio::sync::watch;
use tonic::{Request, Status};

use crate::content::CLUSTER;
use crate::driver_process::{Caller, DriverProcess};
use crate::falsified::Memory;
use crate::link::Link;
use crate::network::Network;
use crate::planted::Planted;
use crate::sidecar::Sidecar;

/// A call of the orchestrator.
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

/// A successful response of a driver.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Volume(Volume),
    Published(HashMap<String, String>),
    Expanded(i64),
    Snapshot(Snapshot),
    Done,
}

/// The code of an RPC error: CSI's codes, by gRPC's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RpcCode {
    Canceled,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unavailable,
    PermissionDenied,
    Internal,
    Unauthenticated,
    /// Unknown or another code, by its number.
    Other(i32),
}

#[derive(Debug, Clone)]
pub(crate) struct RpcError {
    pub(crate) code: RpcCode,
    pub(crate) message: String,
}

impl RpcCode {
    /// Returns whether the sidecars assume that the driver no longer works on the request. Only CreateVolume counts
    /// ResourceExhausted among these codes.
    pub(crate) fn is_final(self, is_create_volume: bool) -> bool {
        match self {
            Self::Canceled | Self::DeadlineExceeded | Self::Unavailable | Self::Aborted => false,
            Self::ResourceExhausted => is_create_volume,
            _ => true,
        }
    }
}

impl From<Status> for RpcError {
    fn from(status: Status) -> Self {
        let code = match i32::from(status.code()) {
            1 => RpcCode::Canceled,
            3 => RpcCode::InvalidArgument,
            4 => RpcCode::DeadlineExceeded,
            5 => RpcCode::NotFound,
            6 => RpcCode::AlreadyExists,
            7 => RpcCode::PermissionDenied,
            8 => RpcCode::ResourceExhausted,
            9 => RpcCode::FailedPrecondition,
            10 => RpcCode::Aborted,
            11 => RpcCode::OutOfRange,
            13 => RpcCode::Internal,
            14 => RpcCode::Unavailable,
            16 => RpcCode::Unauthenticated,
            other => RpcCode::Other(other),
        };
        Self { code, message: status.message().to_owned() }
    }
}

pub(crate) type Answer = Result<Reply, RpcError>;

pub(crate) struct Driver<E> {
    service: ControllerService<Link<E>>,
    pub(crate) process: Arc<DriverProcess>,
    network: Arc<Network>,
    memory: Arc<Memory>,
}

impl<E> Clone for Driver<E> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            process: Arc::clone(&self.process),
            network: Arc::clone(&self.network),
            memory: Arc::clone(&self.memory),
        }
    }
}

impl<E: Ec2> Driver<E> {
    /// Starts a process with this time of its own clock. `clock_is_wrong`: by more than EC2 accepts in a signature.
    pub(crate) fn start(
        id: usize,
        ec2: Arc<E>,
        network: &Arc<Network>,
        (now, clock_is_wrong): (SystemTime, bool),
    ) -> Self {
        let process = Arc::new(DriverProcess::new(id, clock_is_wrong));
        let driver = DriverName::default();
        let link = Arc::new(Link::new(ec2, Arc::clone(network), Arc::clone(&process)));
        let cloud = Cloud::new(link, CloudConfig { time_of_day: Some(now), ..CloudConfig::new(driver.clone()) });
        if network.is_planted(Planted::ResizerTermUnseen) {
            cloud.note_request(ebs_cloud::Sidecar::Resizer, Some(process.one_connection()));
        }
        let cluster_id = Some(CLUSTER.to_owned());
        let tags = TagPolicy { driver: driver.clone(), cluster_id, extra: Tags::new(), warn_on_invalid: false };
        let options = ControllerOptions { driver, tags, ..ControllerOptions::default() };
        let service = ControllerService::new(Arc::new(cloud), options, Operations::new());
        Self { service, process, network: Arc::clone(network), memory: Arc::default() }
    }

    /// Calls, waits for the response until the deadline, and disconnects. It counts as a caller from now on.
    pub(crate) fn call(self, rpc: Rpc, deadline: Duration) -> impl Future<Output = Answer> + Send {
        let (caller, term) = (self.process.caller(), self.process.term(Sidecar::calling(&rpc)));
        self.called(rpc, deadline, (caller, term))
    }

    async fn called(
        self,
        rpc: Rpc,
        deadline: Duration,
        (_caller, mut term): (Caller, watch::Receiver<ConnectionId>),
    ) -> Answer {
        if self.network.is_planted(Planted::WorkWithoutCallers) {
            let (forgotten, rpc) = (self.clone(), rpc.clone());
            self.network.dispatch(async move { drop(forgotten.answer(rpc).await) });
        }
        tokio::select! {
            biased;
            // The process owns the sender.
            _changed = term.changed() => Err(refused(RpcCode::Unavailable, "the connection is lost")),
            answer = self.answer(rpc) => answer,
            () = tokio::time::sleep(deadline) => Err(refused(RpcCode::DeadlineExceeded, "the deadline has passed")),
        }
    }

    async fn answer(&self, rpc: Rpc) -> Answer {
        let bug = self.network.planted;
        if let Some(reply) = self.memory.recall(bug, &rpc) {
            return Ok(reply);
        }
        let answer = self.carry_out(rpc.clone()).await;
        self.memory.falsify(bug, &rpc, answer)
    }

    async fn carry_out(&self, rpc: Rpc) -> Answer {
        let service = &self.service;
        let connection = match Sidecar::calling(&rpc) {
            Sidecar::Resizer if self.network.is_planted(Planted::ResizerTermUnseen) => self.process.one_connection(),
            sidecar => self.process.connection(sidecar),
        };
        let reply = match rpc {
            Rpc::CreateVolume(r) => {
                let volume = service.create_volume(over(connection, r)).await?.into_inner().volume;
                Reply::Volume(volume.ok_or_else(|| refused(RpcCode::Other(-1), "an answer without a volume"))?)
            }
            Rpc::DeleteVolume(r) => service.delete_volume(over(connection, r)).await.map(|_| Reply::Done)?,
            Rpc::Publish(r) => Reply::Published(
                service.controller_publish_volume(over(connection, r)).await?.into_inner().publish_context,
            ),
            Rpc::Unpublish(r) => service.controller_unpublish_volume(over(connection, r)).await.map(|_| Reply::Done)?,
            Rpc::Expand(r) => Reply::Expanded(
                service.controller_expand_volume(over(connection, r)).await?.into_inner().capacity_bytes,
            ),
            Rpc::Modify(r) => service.controller_modify_volume(over(connection, r)).await.map(|_| Reply::Done)?,
            Rpc::ModifyProperties(r) => {
                service.modify_volume_properties(over(connection, r)).await.map(|_| Reply::Done)?
            }
            Rpc::CreateSnapshot(r) => {
                let snapshot = service.create_snapshot(over(connection, r)).await?.into_inner().snapshot;
                Reply::Snapshot(snapshot.ok_or_else(|| refused(RpcCode::Other(-1), "an answer without a snapshot"))?)
            }
            Rpc::DeleteSnapshot(r) => service.delete_snapshot(over(connection, r)).await.map(|_| Reply::Done)?,
        };
        Ok(reply)
    }
}

/// Returns the request as the server passes it on.
fn over<R>(connection: ConnectionId, request: R) -> Request<R> {
    let mut request = Request::new(request);
    request.extensions_mut().insert(connection);
    request
}

fn refused(code: RpcCode, message: &str) -> RpcError {
    RpcError { code, message: message.to_owned() }
}

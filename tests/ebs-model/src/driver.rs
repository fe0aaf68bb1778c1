//! A driver process under test. Its controller service is called without a transport.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use csi_proto::csi::controller_server::Controller;
use csi_proto::modify::modify_server::Modify;
use ebs_cloud::{Cloud, CloudConfig};
use ebs_driver::controller::{ControllerOptions, ControllerService};
use ebs_driver::operation::Operations;
use ebs_driver::tags::TagPolicy;
use ebs_ec2::{ConnectionId, DriverName, Ec2, Tags};
use tokio::sync::watch;
use tonic::{Code, Request};

use crate::content::CLUSTER;
use crate::driver_process::{Caller, DriverProcess};
use crate::falsified::Memory;
use crate::link::Link;
use crate::network::Network;
use crate::planted::Planted;
use crate::rpc::{Rpc, RpcError, RpcReply, RpcResult};
use crate::sidecar::Sidecar;

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
    /// Starts a process whose own clock shows this time. `clock_is_wrong` means that EC2 rejects its signatures because
    /// of the clock.
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
            cloud.record_request(ebs_cloud::Sidecar::Resizer, Some(process.one_connection()));
        }
        let cluster_id = Some(CLUSTER.to_owned());
        let tags = TagPolicy { driver: driver.clone(), cluster_id, extra: Tags::new(), warn_on_invalid: false };
        let options = ControllerOptions { driver, tags, ..ControllerOptions::default() };
        let service = ControllerService::new(Arc::new(cloud), options, Operations::new());
        Self { service, process, network: Arc::clone(network), memory: Arc::default() }
    }

    /// Sends a call, waits for the response until the deadline, and then disconnects. The driver counts this caller
    /// from now on, even before the future is polled.
    pub(crate) fn call(self, rpc: Rpc, deadline: Duration) -> impl Future<Output = RpcResult> + Send {
        let (caller, term) = (self.process.caller(), self.process.term(rpc.sidecar()));
        self.called(rpc, deadline, (caller, term))
    }

    async fn called(
        self,
        rpc: Rpc,
        deadline: Duration,
        (_caller, mut term): (Caller, watch::Receiver<ConnectionId>),
    ) -> RpcResult {
        if self.network.is_planted(Planted::WorkWithoutCallers) {
            let (forgotten, rpc) = (self.clone(), rpc.clone());
            self.network.dispatch(async move { drop(forgotten.answer(rpc).await) });
        }
        tokio::select! {
            biased;
            // The channel cannot be closed, because the process owns the sender.
            _changed = term.changed() => Err(refused(Code::Unavailable, "connection lost")),
            answer = self.answer(rpc) => answer,
            () = tokio::time::sleep(deadline) => Err(refused(Code::DeadlineExceeded, "deadline exceeded")),
        }
    }

    async fn answer(&self, rpc: Rpc) -> RpcResult {
        let bug = self.network.planted;
        if let Some(reply) = self.memory.recall(bug, &rpc) {
            return Ok(reply);
        }
        let answer = self.carry_out(rpc.clone()).await;
        self.memory.falsify(bug, &rpc, answer)
    }

    async fn carry_out(&self, rpc: Rpc) -> RpcResult {
        let service = &self.service;
        let connection = match rpc.sidecar() {
            Sidecar::Resizer if self.network.is_planted(Planted::ResizerTermUnseen) => self.process.one_connection(),
            sidecar => self.process.connection(sidecar),
        };
        let reply = match rpc {
            Rpc::CreateVolume(r) => {
                let volume = service.create_volume(over(connection, r)).await?.into_inner().volume;
                RpcReply::Volume(volume.ok_or_else(|| refused(Code::Unknown, "reply without a volume"))?)
            }
            Rpc::DeleteVolume(r) => service.delete_volume(over(connection, r)).await.map(|_| RpcReply::Done)?,
            Rpc::Publish(r) => RpcReply::Published(
                service.controller_publish_volume(over(connection, r)).await?.into_inner().publish_context,
            ),
            Rpc::Unpublish(r) => {
                service.controller_unpublish_volume(over(connection, r)).await.map(|_| RpcReply::Done)?
            }
            Rpc::Expand(r) => RpcReply::Expanded(
                service.controller_expand_volume(over(connection, r)).await?.into_inner().capacity_bytes,
            ),
            Rpc::Modify(r) => service.controller_modify_volume(over(connection, r)).await.map(|_| RpcReply::Done)?,
            Rpc::ModifyProperties(r) => {
                service.modify_volume_properties(over(connection, r)).await.map(|_| RpcReply::Done)?
            }
            Rpc::CreateSnapshot(r) => {
                let snapshot = service.create_snapshot(over(connection, r)).await?.into_inner().snapshot;
                RpcReply::Snapshot(snapshot.ok_or_else(|| refused(Code::Unknown, "reply without a snapshot"))?)
            }
            Rpc::DeleteSnapshot(r) => service.delete_snapshot(over(connection, r)).await.map(|_| RpcReply::Done)?,
        };
        Ok(reply)
    }
}

fn over<R>(connection: ConnectionId, request: R) -> Request<R> {
    let mut request = Request::new(request);
    request.extensions_mut().insert(connection);
    request
}

fn refused(code: Code, message: &str) -> RpcError {
    RpcError { code, message: message.to_owned() }
}

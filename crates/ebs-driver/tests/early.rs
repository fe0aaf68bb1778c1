//! A driver that is still starting: its socket answers, and calls to services that do not exist yet wait.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::identity_server::Identity;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    NodeGetInfoRequest, ProbeRequest, ProbeResponse,
};
use csi_proto::modify::modify_client::ModifyClient;
use csi_proto::modify::modify_server::{Modify, ModifyServer};
use csi_proto::modify::{
    GetCsiDriverModificationCapabilityRequest, GetCsiDriverModificationCapabilityResponse,
    ModifyVolumePropertiesRequest, ModifyVolumePropertiesResponse,
};
use ebs_driver::server::{Endpoint, Opening, RpcObserver, ServeError, bind, early, serve};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint as Target};
use tonic::{Request, Response, Status};

struct Stub;

#[tonic::async_trait]
impl Identity for Stub {
    async fn get_plugin_info(
        &self,
        _request: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse { name: "stub".to_owned(), ..Default::default() }))
    }

    async fn get_plugin_capabilities(
        &self,
        _request: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn probe(&self, _request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: Some(false) }))
    }
}

#[tonic::async_trait]
impl Modify for Stub {
    async fn get_csi_driver_modification_capability(
        &self,
        _request: Request<GetCsiDriverModificationCapabilityRequest>,
    ) -> Result<Response<GetCsiDriverModificationCapabilityResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn modify_volume_properties(
        &self,
        _request: Request<ModifyVolumePropertiesRequest>,
    ) -> Result<Response<ModifyVolumePropertiesResponse>, Status> {
        Ok(Response::new(Default::default()))
    }
}

struct Unobserved;

impl RpcObserver for Unobserved {
    fn finished(&self, _rpc: &'static str, _code: &'static str, _took: Duration) {}
}

/// A server that has only Identity.
struct Starting {
    _directory: TempDir,
    socket: PathBuf,
    stop: Arc<Notify>,
    serving: JoinSet<Result<(), ServeError>>,
}

fn starting() -> (Starting, Opening) {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("csi.sock");
    let bound = bind(&Endpoint::Unix(socket.clone()), 0o600).expect("free");
    let (routes, opening) = early(Stub);
    let stop = Arc::new(Notify::new());
    let (stopping, limit) = (Arc::clone(&stop), Duration::from_secs(120));
    let mut serving = JoinSet::new();
    serving.spawn(async move { serve(bound, routes, Arc::new(Unobserved), stopping.notified(), limit).await });
    (Starting { _directory: directory, socket, stop, serving }, opening)
}

async fn channel(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    let connect = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Target::from_static("http://localhost").connect_with_connector(connect).await.expect("connects")
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within two minutes"))
}

async fn identity_answers(server: &Starting) {
    let mut identity = IdentityClient::new(channel(&server.socket).await);
    let info = within("info", identity.get_plugin_info(GetPluginInfoRequest {})).await.expect("answered").into_inner();
    assert_eq!(info.name, "stub");
    let probe = within("probe", identity.probe(ProbeRequest {})).await.expect("answered").into_inner();
    assert_eq!(probe.ready, Some(false));
}

/// An RPC that no service has is Unimplemented after the start.
#[tokio::test]
async fn identity_answers_at_once_and_other_calls_wait() {
    let (server, opening) = starting();
    identity_answers(&server).await;
    let channel = channel(&server.socket).await;
    let mut calls = JoinSet::new();
    let mut modify = ModifyClient::new(channel.clone());
    calls.spawn(async move {
        let request = GetCsiDriverModificationCapabilityRequest {};
        modify.get_csi_driver_modification_capability(request).await.map(drop)
    });
    // This call is sent later and answered earlier.
    identity_answers(&server).await;
    assert!(calls.try_join_next().is_none(), "no service could have answered it");
    opening.open(Routes::default().add_service(ModifyServer::new(Stub)));
    within("the call that waited", calls.join_next()).await.expect("one").expect("no panic").expect("answered");
    let status = within("no node", NodeClient::new(channel).node_get_info(NodeGetInfoRequest {})).await;
    assert_eq!(format!("{:?}", status.expect_err("no such service").code()), "Unimplemented");
}

/// The code is Unavailable.
#[tokio::test]
async fn waiting_call_ends_when_the_driver_stops_before_its_start() {
    let (mut server, opening) = starting();
    let mut node = NodeClient::new(channel(&server.socket).await);
    let mut calls = JoinSet::new();
    calls.spawn(async move { node.node_get_info(NodeGetInfoRequest {}).await });
    identity_answers(&server).await;
    drop(opening);
    let status = within("the call", calls.join_next()).await.expect("one").expect("no panic").expect_err("no service");
    assert_eq!(format!("{:?}", status.code()), "Unavailable");
    assert!(status.message().contains("call again"), "{status}");
    server.stop.notify_one();
    let ended = within("the server ends", server.serving.join_next()).await;
    assert!(matches!(ended, Some(Ok(Ok(())))), "{ended:?}");
}

//! A CSI driver as the registrar and the kubelet see it. It has its own runtime, so that dropping it ends its
//! connections.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use csi_proto::csi::identity_server::{Identity, IdentityServer};
use csi_proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    ProbeRequest, ProbeResponse,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio_stream::Stream;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status};

#[derive(Debug, Clone)]
#[cfg_attr(windows, expect(dead_code, reason = "the tests of what goes wrong are for Linux"))]
pub(crate) enum Says {
    Name(&'static str),
    Fails,
    Nothing,
}

#[derive(Debug)]
struct Shared {
    says: Mutex<Says>,
    asked: Mutex<usize>,
}

#[derive(Debug)]
pub(crate) struct FakeDriver {
    runtime: Option<Runtime>,
    _tasks: JoinSet<()>,
    shared: Arc<Shared>,
}

impl FakeDriver {
    /// Serves the connections that `accepted` returns. Calls `accepted` in the driver's runtime.
    fn serve<S, C>(says: Says, accepted: impl FnOnce() -> S + Send + 'static) -> anyhow::Result<Self>
    where
        S: Stream<Item = std::io::Result<C>> + Send + 'static,
        C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let shared = Arc::new(Shared { says: Mutex::new(says), asked: Mutex::new(0) });
        let server = Server::builder().add_service(IdentityServer::new(Said(Arc::clone(&shared))));
        let mut tasks = JoinSet::new();
        tasks.spawn_on(
            async move { server.serve_with_incoming(accepted()).await.expect("a driver that serves") },
            runtime.handle(),
        );
        Ok(Self { runtime: Some(runtime), _tasks: tasks, shared })
    }

    pub(crate) fn over_tcp(says: Says) -> anyhow::Result<(Self, SocketAddr)> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let accepted = move || TcpListenerStream::new(tokio::net::TcpListener::from_std(listener).expect("a listener"));
        Ok((Self::serve(says, accepted)?, address))
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn at(socket: &std::path::Path, says: Says) -> anyhow::Result<Self> {
        let _left_by_the_one_before = std::fs::remove_file(socket);
        let listener = std::os::unix::net::UnixListener::bind(socket)?;
        listener.set_nonblocking(true)?;
        Self::serve(says, move || {
            let listener = tokio::net::UnixListener::from_std(listener).expect("a listener");
            tokio_stream::wrappers::UnixListenerStream::new(listener)
        })
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn say(&self, says: Says) {
        *self.shared.says.lock().expect("a lock") = says;
    }

    pub(crate) fn asked(&self) -> usize {
        *self.shared.asked.lock().expect("a lock")
    }
}

impl Drop for FakeDriver {
    /// Closes all connections, as when a process ends.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Said(Arc<Shared>);

#[tonic::async_trait]
impl Identity for Said {
    async fn get_plugin_info(
        &self,
        _request: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        *self.0.asked.lock().expect("a lock") += 1;
        let says = self.0.says.lock().expect("a lock").clone();
        match says {
            Says::Name(name) => {
                let name = name.to_owned();
                Ok(Response::new(GetPluginInfoResponse { name, ..GetPluginInfoResponse::default() }))
            }
            Says::Fails => Err(Status::internal("not today")),
            Says::Nothing => std::future::pending().await,
        }
    }

    async fn get_plugin_capabilities(
        &self,
        _request: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Err(Status::unimplemented("a registrar does not ask"))
    }

    async fn probe(&self, _request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse::default()))
    }
}

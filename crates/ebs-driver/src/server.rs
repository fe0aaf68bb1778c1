//! Serves the socket, with a layer that logs, measures and isolates all RPCs.

mod connection;
mod endpoint;
mod layer;
mod probe;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::controller_server::{Controller, ControllerServer};
use csi_proto::csi::node_server::{Node, NodeServer};
use csi_proto::modify::modify_server::{Modify, ModifyServer};
use futures_util::TryStreamExt;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tower::layer::layer_fn;

pub use endpoint::{Endpoint, EndpointError, MAX_SOCKET_PATH};
pub use layer::{RpcObserver, StartupGate, startup_gate};
pub use probe::{ProbeError, probe};
pub use socket::{BindError, Bound, bind};

use connection::Connection;
use layer::RpcService;
use socket::Listener;

/// Why the server on an endpoint failed.
#[derive(Debug, thiserror::Error)]
#[error("serve CSI on {endpoint}")]
pub struct ServeError {
    endpoint: Endpoint,
    #[source]
    cause: tonic::transport::Error,
}

/// Returns the services of one process except Identity, which [`startup_gate`] adds.
pub fn services<C, N>(controller: Option<C>, node: Option<N>) -> Routes
where
    C: Controller + Modify + Clone,
    N: Node,
{
    let mut routes = Routes::default();
    if let Some(controller) = controller {
        routes = routes.add_service(ControllerServer::new(controller.clone()));
        routes = routes.add_service(ModifyServer::new(controller));
    }
    if let Some(node) = node {
        routes = routes.add_service(NodeServer::new(node));
    }
    routes
}

/// Serves until `shutdown` completes. Then accepts no new connections or requests, and waits at most `limit` for
/// running requests. Finally removes the socket file, if it still belongs to this process.
///
/// Drain the operations ([`crate::operation::Operations::drain`]) at the same time, so that their requests can end.
///
/// Cancellation: dropping the future stops listening at once. Connections remain until the runtime ends.
pub async fn serve(
    bound: Bound,
    routes: Routes,
    observer: Arc<dyn RpcObserver>,
    shutdown: impl Future<Output = ()>,
    limit: Duration,
) -> Result<(), ServeError> {
    let Bound { listener, endpoint, file } = bound;
    let (stopping, stopped) = oneshot::channel::<()>();
    let shutdown = async move {
        shutdown.await;
        drop(stopping);
    };
    let layer = layer_fn(move |inner| RpcService { inner, observer: Arc::clone(&observer) });
    let router = Server::builder().layer(layer).add_routes(routes);
    let serving = async move {
        match listener {
            Listener::Unix(unix) => {
                let accepted = socket::incoming(unix).map_ok(Connection::accepted);
                router.serve_with_incoming_shutdown(accepted, shutdown).await
            }
            Listener::Tcp(tcp) => {
                let accepted = TcpListenerStream::new(tcp).map_ok(Connection::accepted);
                router.serve_with_incoming_shutdown(accepted, shutdown).await
            }
        }
    };
    let overdue = async {
        // This channel never receives a value. It closes when the shutdown begins.
        let _ = stopped.await;
        tokio::time::sleep(limit).await;
    };
    let result = tokio::select! {
        served = serving => served.map_err(|cause| ServeError { endpoint, cause }),
        () = overdue => {
            tracing::warn!(?limit, "shutdown ended with requests still in flight");
            Ok(())
        }
    };
    drop(file);
    result
}

#[cfg(test)]
mod tests;

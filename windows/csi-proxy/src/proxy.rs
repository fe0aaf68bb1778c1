//! All services of the process. They are opened together and stopped together, and their calls are drained.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use component_base::http::{ClearText, HttpEndpoint, serve_on};
use csi_proto::csi_proxy::{Group, Version, pipe_name};
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use winstorage::Storage;

use crate::audit::{Audit, AuditSink};
use crate::connection::Connection;
use crate::figures::Figures;
use crate::groups::ApiGroups;
use crate::metrics::Metrics;
use crate::peer::Peer;
use crate::pool::Pool;
use crate::serve::{GroupService, OPERATIONS, QUEUE, Shared};

/// How long running calls may continue after a stop is requested.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(20);
/// How long clients may take to receive finished responses.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);
/// Maximum number of concurrent calls of one connection. More calls wait.
const CALLS_OF_A_CONNECTION: usize = 16;
/// Maximum number of concurrent streams of one connection, including waiting calls.
const STREAMS_OF_A_CONNECTION: u32 = 100;

/// Where clients come from: Windows named pipes, or memory in tests.
pub trait Transport {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens a pipe. Clients can connect when this returns. Dropping the result closes the pipe.
    fn listen(
        &self,
        pipe: &str,
    ) -> io::Result<impl Stream<Item = io::Result<(Self::Stream, Peer)>> + Send + Unpin + 'static>;
}

pub struct Parts {
    pub storage: Arc<Storage>,
    pub api_groups: ApiGroups,
    pub metrics_bind_address: Option<HttpEndpoint>,
    pub figures: fn() -> Figures,
    pub audit: Vec<Box<dyn AuditSink>>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("{}", lines(.0))]
    Listen(Vec<ListenError>),
    #[error("serve metrics on {address}")]
    Metrics {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error("{}", lines(.0))]
    Serve(Vec<ServeError>),
    #[error("{calls} calls were still running {} s after the stop request and were abandoned", DRAIN_LIMIT.as_secs())]
    Drain { calls: usize },
}

#[derive(Debug, thiserror::Error)]
#[error("listen on {pipe} for group {group}, version {version}: {source}")]
pub struct ListenError {
    group: Group,
    version: Version,
    pipe: String,
    source: io::Error,
}

#[derive(Debug, thiserror::Error)]
#[error("serve group {group}, version {version}: {reason}")]
pub struct ServeError {
    group: Group,
    version: Version,
    reason: String,
}

fn lines<E: std::fmt::Display>(errors: &[E]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A proxy whose pipes are all open.
pub struct Proxy {
    shared: Arc<Shared>,
    services: JoinSet<Result<(), ServeError>>,
    pages: JoinSet<()>,
    stop: CancellationToken,
    metrics_address: Option<std::net::SocketAddr>,
}

impl Proxy {
    /// Opens all pipes or none. `stop` ends [`Self::run`]. The error names every pipe that could not be created.
    pub async fn open<T: Transport>(transport: &T, parts: Parts, stop: CancellationToken) -> Result<Self, ProxyError> {
        let metrics = Arc::new(Metrics::new(parts.figures));
        let listener = match &parts.metrics_bind_address {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let shared = Arc::new(Shared {
            storage: parts.storage,
            audit: Audit::new(parts.audit),
            metrics: Arc::clone(&metrics),
            running: TaskTracker::new(),
            pool: Pool::new(OPERATIONS, QUEUE),
        });
        let (mut opened, mut errors) = (Vec::new(), Vec::new());
        for (group, version) in parts.api_groups.pairs() {
            let pipe = pipe_name(group, version);
            match transport.listen(&pipe) {
                Ok(incoming) => opened.push((group, version, incoming)),
                Err(source) => errors.push(ListenError { group, version, pipe, source }),
            }
        }
        if !errors.is_empty() {
            return Err(ProxyError::Listen(errors));
        }
        let mut services = JoinSet::new();
        for (group, version, incoming) in opened {
            let service = GroupService::new(group, version, Arc::clone(&shared));
            services.spawn(serve(group, version, service, incoming, stop.clone()));
        }
        let (mut pages, mut metrics_address) = (JoinSet::new(), None);
        if let Some(listener) = listener {
            metrics_address = listener.local_addr().ok();
            let stopped = stop.clone().cancelled_owned();
            pages.spawn(async move {
                tokio::select! {
                    () = stopped => {}
                    never = serve_on(listener, ClearText, metrics.router()) => match never {},
                }
            });
        }
        Ok(Self { shared, services, pages, stop, metrics_address })
    }

    /// Returns the address of the metrics endpoint, with the actual port.
    pub fn metrics_address(&self) -> Option<std::net::SocketAddr> {
        self.metrics_address
    }

    /// Serves until `stop` is cancelled, and then until running calls have ended, but for at most [`DRAIN_LIMIT`].
    /// Errors: [`ProxyError::Serve`] if a service has ended unexpectedly, which also stops the other services;
    /// [`ProxyError::Drain`] if calls have not ended in time, because a call within Windows cannot be cancelled.
    pub async fn run(mut self) -> Result<(), ProxyError> {
        let mut errors = Vec::new();
        while !self.stop.is_cancelled() {
            let ended = tokio::select! {
                () = self.stop.cancelled() => break,
                Some(ended) = self.services.join_next() => ended,
                else => break,
            };
            errors.extend(ended.unwrap_or_else(|error| Err(panicked(&error))).err());
            self.stop.cancel();
        }
        let drained = self.drain(&mut errors).await;
        if !errors.is_empty() {
            return Err(ProxyError::Serve(errors));
        }
        drained
    }

    async fn drain(&mut self, errors: &mut Vec<ServeError>) -> Result<(), ProxyError> {
        self.shared.running.close();
        let running = &self.shared.running;
        let drained = timeout(DRAIN_LIMIT, running.wait()).await;
        let answers = async {
            while let Some(ended) = self.services.join_next().await {
                errors.extend(ended.unwrap_or_else(|error| Err(panicked(&error))).err());
            }
        };
        // A service that has not ended waits only for clients that keep their connections open after the last response.
        let _ignored = timeout(FLUSH_LIMIT, answers).await;
        self.services.abort_all();
        self.pages.abort_all();
        match drained {
            Ok(()) => Ok(()),
            Err(_) => Err(ProxyError::Drain { calls: self.shared.running.len() }),
        }
    }
}

fn panicked(error: &tokio::task::JoinError) -> ServeError {
    ServeError { group: Group::Disk, version: Group::Disk.versions()[0], reason: error.to_string() }
}

async fn bind(endpoint: &HttpEndpoint) -> Result<tokio::net::TcpListener, ProxyError> {
    endpoint.bind().await.map_err(|source| ProxyError::Metrics { address: endpoint.to_string(), source })
}

async fn serve<S, I>(
    group: Group,
    version: Version,
    service: GroupService,
    incoming: I,
    stop: CancellationToken,
) -> Result<(), ServeError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    I: Stream<Item = io::Result<(S, Peer)>> + Send + Unpin + 'static,
{
    let ended = |reason: String| ServeError { group, version, reason };
    let (failed, failure) = tokio::sync::oneshot::channel();
    let mut failed = Some(failed);
    let connections = {
        let stop = stop.clone();
        // Let an error of the listener end the service. tonic alone would ignore it.
        incoming.map(move |accepted| match accepted {
            Ok((stream, peer)) => Ok(Connection::new(stream, peer, stop.clone())),
            Err(error) => {
                let kind = error.kind();
                let _ = failed.take().map(|failed| failed.send(error));
                Err(io::Error::from(kind))
            }
        })
    };
    let server = tonic::transport::Server::builder()
        .concurrency_limit_per_connection(CALLS_OF_A_CONNECTION)
        .max_concurrent_streams(STREAMS_OF_A_CONNECTION)
        .serve_with_incoming_shutdown(service, connections, stop.clone().cancelled_owned());
    let served = tokio::select! {
        served = server => served,
        Ok(error) = failure => return Err(ended(error.to_string())),
    };
    match served {
        Ok(()) if stop.is_cancelled() => Ok(()),
        Ok(()) => Err(ended("the server stopped unexpectedly".to_owned())),
        Err(error) => Err(ended(error.to_string())),
    }
}

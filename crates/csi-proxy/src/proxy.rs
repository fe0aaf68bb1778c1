//! All services of the process: opened together, stopped together, and drained at the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use csi_proxy_proto::{Group, Version, pipe_name};
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
use crate::metrics::{Metrics, MetricsListener};
use crate::peer::Peer;
use crate::pool::Pool;
use crate::serve::{GroupService, OPERATIONS, QUEUE, Shared};

/// How long running calls may take to end after a stop.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(20);
/// How long finished answers may take to reach their clients.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);
/// Calls of one connection that run at the same time; more wait.
const CALLS_OF_A_CONNECTION: usize = 16;
/// Streams of one connection: twice what runs.
const STREAMS_OF_A_CONNECTION: u32 = 100;

/// Where clients come from: Windows' pipes, or memory in tests.
pub trait Transport {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens a pipe for clients. From its return on they can connect; dropping what is returned closes it.
    ///
    /// # Errors
    ///
    /// The pipe exists already, or cannot be made.
    fn listen(
        &self,
        pipe: &str,
    ) -> io::Result<impl Stream<Item = io::Result<(Self::Stream, Peer)>> + Send + Unpin + 'static>;
}

/// What a proxy is made of.
pub struct Parts {
    /// The operations, over the machine.
    pub storage: Arc<Storage>,
    /// Which groups and versions are served.
    pub api_groups: ApiGroups,
    /// Where metrics are served, if at all.
    pub metrics_bind_address: Option<String>,
    /// Asks the system for the figures of this process.
    pub figures: fn() -> Figures,
    /// Where records of calls go.
    pub audit: Vec<Box<dyn AuditSink>>,
}

/// Why a proxy has ended, or has not begun.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Pipes that cannot be made; those that could are closed again.
    #[error("{}", lines(.0))]
    Listen(Vec<ListenError>),
    /// The address for metrics cannot be had.
    #[error("serve metrics on {address}")]
    Metrics {
        /// As it was given.
        address: String,
        #[source]
        source: io::Error,
    },
    /// Services that have ended by themselves; the others were stopped.
    #[error("{}", lines(.0))]
    Serve(Vec<ServeError>),
    /// Calls that did not end in time after a stop.
    #[error("{calls} calls still ran {} s after the stop, and were left", DRAIN_LIMIT.as_secs())]
    Drain {
        /// How many.
        calls: usize,
    },
}

/// A pipe that cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("listen on {pipe} for group {group}, version {version}: {source}")]
pub struct ListenError {
    group: Group,
    version: Version,
    pipe: String,
    source: io::Error,
}

/// A service that has ended.
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

/// A proxy whose pipes all exist.
pub struct Proxy {
    shared: Arc<Shared>,
    services: JoinSet<Result<(), ServeError>>,
    pages: JoinSet<()>,
    stop: CancellationToken,
    metrics_address: Option<std::net::SocketAddr>,
}

impl Proxy {
    /// Opens all pipes, or none. `stop` ends what [`Self::run`] does.
    ///
    /// # Errors
    ///
    /// [`ProxyError::Listen`] with every pipe that cannot be made; [`ProxyError::Metrics`].
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
            metrics_address = listener.address().ok();
            pages.spawn(listener.serve(metrics, stop.clone()));
        }
        Ok(Self { shared, services, pages, stop, metrics_address })
    }

    /// Where metrics are served, once the port is known.
    #[must_use]
    pub fn metrics_address(&self) -> Option<std::net::SocketAddr> {
        self.metrics_address
    }

    /// Serves until the stop, and then until running calls have ended, at most [`DRAIN_LIMIT`].
    ///
    /// # Errors
    ///
    /// [`ProxyError::Serve`] when a service has ended by itself: the others are stopped, too. [`ProxyError::Drain`] when calls
    /// have not ended in time: those that are within Windows cannot be ended.
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
        // Clients that keep their connections open have had all of their answers.
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

async fn bind(address: &str) -> Result<MetricsListener, ProxyError> {
    let bound = MetricsListener::bind(address).await;
    bound.map_err(|source| ProxyError::Metrics { address: address.to_owned(), source })
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
        // An error of the listener ends the service; tonic alone would go on.
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
        Ok(()) => Err(ended("it has ended".to_owned())),
        Err(error) => Err(ended(error.to_string())),
    }
}

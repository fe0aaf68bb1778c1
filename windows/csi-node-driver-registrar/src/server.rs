//! Serves the kubelet. It accepts concurrent connections, and restores the socket file if it disappears.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use grpc_authority::LenientStream;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::address::Address;
use crate::local::{Listener, is_of_one_client};
use crate::socket_file::{SocketError, SocketFile, Standing};
use crate::stream::{Link, Stream, heard, link};

/// Maximum number of concurrent connections. More connections wait. The kubelet has one or two.
const CONNECTIONS: usize = 64;
const STREAMS: u32 = 16;
/// Length of the HTTP/2 client preface in bytes.
const PREFACE: usize = 24;
/// The server closes a connection without a preface after this time, as grpc-go does. On Windows, clients also connect
/// just to check that a file is a socket.
const SILENCE: Duration = Duration::from_secs(120);
/// How long requests in flight and their connections may take to finish at shutdown.
const FAREWELL: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_secs(1);
/// How long the server tries to restore a missing socket file.
const PUT_BACK_WITHIN: Duration = Duration::from_secs(30);
/// The pause after a failed accept, and the maximum number of consecutive failures.
const PAUSE: Duration = Duration::from_secs(1);
const FAILURES: u32 = 10;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("create the registration socket")]
    Socket(#[from] SocketError),
    #[error("{step} on tcp://{address}")]
    Tcp {
        step: &'static str,
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error(
        "restore the missing registration socket: not possible within {PUT_BACK_WITHIN:?}; restart the container to mount its directory again"
    )]
    Vanished(#[source] SocketError),
    #[error("accept connections at {address}: failed {FAILURES} times")]
    Accept {
        address: Address,
        #[source]
        cause: io::Error,
    },
}

/// A listener and its connections. Dropping it closes all of them and leaves the socket file. So a kubelet that knows
/// the driver does not unregister it when this process restarts.
#[derive(Debug)]
pub(crate) struct Server {
    listener: Listener,
    address: Address,
    file: Option<SocketFile>,
    /// When the server found the file missing, or `None` if the file exists.
    gone: Option<Instant>,
    /// Whether the log already mentions that another process has replaced the file.
    displaced: bool,
    routes: Routes,
    connections: JoinSet<()>,
    stop: CancellationToken,
    look: Interval,
}

impl Server {
    pub(crate) async fn bind(site: &Address, routes: Routes) -> Result<Self, ServeError> {
        let (listener, address, file) = match site {
            Address::Local(path) => {
                let (listener, file) = SocketFile::bind(path)?;
                (listener, Address::Local(path.clone()), Some(file))
            }
            Address::Tcp(wanted) => {
                let bound = Listener::tcp(*wanted).await;
                let (listener, real) =
                    bound.map_err(|(step, cause)| ServeError::Tcp { step, address: *wanted, cause })?;
                (listener, Address::Tcp(real), None)
            }
        };
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            listener,
            address,
            file,
            gone: None,
            displaced: false,
            routes,
            connections: JoinSet::new(),
            stop: CancellationToken::new(),
            look,
        })
    }

    /// Returns the address. If the requested TCP port was 0, the address has the actual port.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Serves forever. The caller may drop the future and call this again; connections continue in between.
    pub(crate) async fn serve(&mut self) -> Result<Infallible, ServeError> {
        let mut failures = 0;
        loop {
            let has_room = self.connections.len() < CONNECTIONS;
            tokio::select! {
                accepted = self.listener.accept(), if has_room => match accepted {
                    Ok(stream) => {
                        failures = 0;
                        self.connections.spawn(converse(stream, self.routes.clone(), self.stop.clone()));
                    }
                    Err(error) if is_of_one_client(&error) => tracing::debug!(%error, "client disconnected before its connection was accepted"),
                    Err(cause) => {
                        failures += 1;
                        if failures >= FAILURES {
                            return Err(ServeError::Accept { address: self.address.clone(), cause });
                        }
                        tracing::warn!(error = %cause, "failed to accept a connection, retrying in {PAUSE:?}");
                        sleep(PAUSE).await;
                    }
                },
                _ = self.look.tick() => self.look_after_the_file()?,
                Some(_) = self.connections.join_next() => {}
            }
        }
    }

    /// Restores a missing socket file. Leaves a file of another process alone, because that process now serves the
    /// kubelet.
    fn look_after_the_file(&mut self) -> Result<(), ServeError> {
        let Some(file) = &self.file else { return Ok(()) };
        let path = file.path().to_owned();
        match file.standing() {
            Ok(Standing::Ours) => {
                (self.displaced, self.gone) = (false, None);
                return Ok(());
            }
            Ok(Standing::Another) => {
                self.gone = None;
                if !std::mem::replace(&mut self.displaced, true) {
                    let path = path.display();
                    tracing::warn!(%path, "another process replaced the registration socket");
                }
                return Ok(());
            }
            Ok(Standing::Gone) => {}
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "failed to check the registration socket");
                return Ok(());
            }
        }
        let since = *self.gone.get_or_insert_with(|| {
            tracing::warn!(path = %path.display(), "registration socket is missing, restoring it");
            Instant::now()
        });
        match SocketFile::bind(&path) {
            Ok((listener, file)) => {
                tracing::info!(path = %path.display(), "registration socket restored, so the kubelet registers the driver again");
                (self.listener, self.file, self.gone) = (listener, Some(file), None);
                Ok(())
            }
            Err(cause) if since.elapsed() >= PUT_BACK_WITHIN => Err(ServeError::Vanished(cause)),
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "failed to restore the registration socket");
                Ok(())
            }
        }
    }

    pub(crate) fn unregister(&self) {
        if let Some(file) = &self.file {
            file.remove();
        }
    }

    /// Waits for at most a second until the kubelet has received all responses in flight.
    pub(crate) async fn drain(mut self) {
        self.stop.cancel();
        let all = async { while self.connections.join_next().await.is_some() {} };
        if timeout(FAREWELL, all).await.is_err() {
            tracing::debug!("stopped with open connections");
        }
    }
}

/// Serves one connection until it ends. After `stop` is cancelled, gives it a short time to finish.
async fn converse(stream: Stream, routes: Routes, stop: CancellationToken) {
    let (state, mut seen) = link();
    let io = LenientStream::new(heard(stream, PREFACE, state));
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.max_concurrent_streams(STREAMS);
    let mut connection = pin!(http.serve_connection(TokioIo::new(io), TowerToHyperService::new(routes)));
    let silent = async {
        if timeout(SILENCE, seen.wait_for(|(_, link)| *link != Link::Open)).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = silent => return tracing::debug!("closed an idle connection"),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            timeout(FAREWELL, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = &error as &dyn std::error::Error, "connection ended early");
    }
}

#[cfg(test)]
mod tests;

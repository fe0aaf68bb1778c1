//! A listening socket and its connections. All of them end at shutdown.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::broken;

/// How long running requests may continue after shutdown begins.
const GRACE: Duration = Duration::from_secs(5);

const HEADERS_WITHIN: Duration = Duration::from_secs(30);

/// A listener that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("listen on {address} for {purpose}; choose another address, or port 0 for a free port")]
pub struct OpenError {
    address: SocketAddr,
    purpose: &'static str,
    source: std::io::Error,
}

/// An open port. Nothing accepts its connections yet.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Opens the port.
    pub(crate) async fn open(address: SocketAddr, purpose: &'static str) -> Result<Self, OpenError> {
        let failed = |source| OpenError { address, purpose, source };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// Returns the URL for clients on this machine, such as `http://127.0.0.1:4711`.
    pub(crate) fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let here = if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            address.set_ip(here);
        }
        format!("http://{address}")
    }

    /// Serves until `stop` is cancelled. Then gives running requests a few seconds to finish.
    pub(crate) async fn serve(self, app: Router, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) => { connections.spawn(serve_one(stream, app.clone(), stop.clone())); }
                    // The process is most likely out of file descriptors. Pause until connections end, instead of
                    // spinning.
                    Err(error) => {
                        tracing::warn!(%error, "failed to accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop(self.socket);
        let drained = tokio::time::timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            tracing::warn!(connections = connections.len(), "closing connections after the shutdown timeout");
        }
    }
}

async fn serve_one(stream: TcpStream, app: Router, stop: CancellationToken) {
    let app = TowerToHyperService::new(app);
    let service = service_fn(move |request| {
        let answered = app.call(request);
        async move {
            let Ok(response) = answered.await;
            broken::or_break(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended early");
    }
}

//! The HTTP listener for the metrics and health pages.
//!
//! Any client in the cluster can reach these pages, but must not be able to use up the program's memory or file
//! descriptors. `axum::serve` and axum-server limit neither the number of connections nor their lifetimes.

mod endpoint;

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Version;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub use endpoint::{BadHttpEndpoint, HttpEndpoint};

/// How long to wait before retrying a listener that failed to start.
pub const RETRY: Duration = Duration::from_secs(10);
/// The time limit for the TLS handshake, for a request's headers, and for idle connections, as in Go programs.
pub const HEADERS_WITHIN: Duration = Duration::from_secs(3);
/// The longest lifetime of a connection, whatever its client does. A new connection is cheap.
const LIFETIME: Duration = Duration::from_secs(60);
/// How long a connection may take to finish its request at the end of its lifetime.
const FAREWELL: Duration = Duration::from_secs(5);
/// The maximum number of open connections. Further clients wait until one closes.
const CONNECTIONS: usize = 64;
/// The maximum number of concurrent requests on an HTTP/2 connection.
const STREAMS: u32 = 16;

/// Turns an accepted connection into one that carries HTTP.
pub trait Handshake: Send + Sync + 'static {
    /// The type of the connection after the handshake.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Whether clients use https.
    const IS_TLS: bool;

    /// Performs the handshake. Returns the connection and the HTTP version that the client has chosen.
    fn shake(&self, stream: TcpStream) -> impl Future<Output = io::Result<(Self::Stream, Version)>> + Send;
}

/// Accepts connections in clear text, without a handshake.
#[derive(Debug, Clone, Copy)]
pub struct ClearText;

impl Handshake for ClearText {
    type Stream = TcpStream;
    const IS_TLS: bool = false;

    async fn shake(&self, stream: TcpStream) -> io::Result<(TcpStream, Version)> {
        Ok((stream, Version::HTTP_11))
    }
}

/// Serves `app` until dropped. Retries every 10 s if the listener fails to start. `pages` names the paths in log lines.
///
/// Cancellation: dropping the future closes the listener and every connection.
pub async fn serve<H: Handshake>(endpoint: &HttpEndpoint, pages: &str, handshake: H, app: Router) -> Infallible {
    let listener = loop {
        match endpoint.bind().await {
            Ok(listener) => break listener,
            Err(error) => tracing::error!(%endpoint, %error, "failed to listen for {pages}, next attempt in 10 s"),
        }
        sleep(RETRY).await;
    };
    match listener.local_addr() {
        Ok(address) => tracing::info!(%address, tls = H::IS_TLS, "serving {pages}"),
        Err(error) => tracing::warn!(%error, "failed to read the address of the HTTP listener"),
    }
    serve_on(listener, handshake, app).await
}

/// Serves `app` on a bound listener until dropped.
///
/// Cancellation: dropping the future closes the listener and every connection.
pub async fn serve_on<H: Handshake>(listener: TcpListener, handshake: H, app: Router) -> Infallible {
    let handshake = Arc::new(handshake);
    let mut connections = JoinSet::new();
    loop {
        let has_room = connections.len() < CONNECTIONS;
        tokio::select! {
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&handshake), app.clone()));
                }
                Err(error) if is_of_one_client(&error) => tracing::debug!(%error, "client disconnected before its connection was accepted"),
                // The process has no file descriptors left. Wait until connections end and release theirs.
                Err(error) => {
                    tracing::error!(%error, "failed to accept HTTP connections, next attempt in 10 s");
                    sleep(RETRY).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Returns true if the error only means that a client disconnected before `accept`. The next `accept` may succeed.
pub fn is_of_one_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

async fn connection<H: Handshake>(stream: TcpStream, handshake: Arc<H>, app: Router) {
    let (stream, version) = match timeout(HEADERS_WITHIN, handshake.shake(stream)).await {
        Ok(Ok(shaken)) => shaken,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake of an HTTP client failed"),
        Err(_elapsed) => return tracing::debug!("TLS handshake of an HTTP client timed out"),
    };
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(HEADERS_WITHIN)
        .keep_alive_timeout(HEADERS_WITHIN);
    let http = if version == Version::HTTP_2 { http.http2_only() } else { http.http1_only() };
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    bounded(connection, |connection| connection.graceful_shutdown()).await;
}

/// Serves a connection for its limited lifetime. `end` starts the graceful shutdown.
async fn bounded<C>(connection: C, end: impl FnOnce(Pin<&mut C>))
where
    C: Future<Output = Result<(), Box<dyn Error + Send + Sync>>>,
{
    let mut connection = pin!(connection);
    let ended = match timeout(LIFETIME, connection.as_mut()).await {
        Ok(ended) => ended,
        Err(_elapsed) => {
            end(connection.as_mut());
            match timeout(FAREWELL, connection).await {
                Ok(ended) => ended,
                Err(_elapsed) => return tracing::debug!("closed an HTTP connection after its time limit"),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "HTTP connection failed");
    }
}

#[cfg(test)]
mod tests;

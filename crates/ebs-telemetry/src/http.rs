//! The HTTP listener of `/metrics`, `/healthz` and `/readyz`, in clear text or over TLS.

mod accept;
mod endpoint;
mod pages;
mod tls;

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

pub use endpoint::{BadHttpEndpoint, HttpEndpoint};
pub use pages::Pages;
pub use tls::{Tls, TlsError, TlsFiles};

use crate::Metrics;

/// Pause before a failed listener is restarted.
const RETRY: Duration = Duration::from_secs(10);
/// Timeout of the TLS handshake and of a request's headers. It also limits idle connections, as in the reference.
const HEADERS_WITHIN: Duration = Duration::from_secs(3);
/// Maximum lifetime of a connection, independent of its client: a new one is cheap.
const LIFETIME: Duration = Duration::from_secs(60);
/// Time that a connection has to finish its request at the end of its lifetime.
const FAREWELL: Duration = Duration::from_secs(5);
/// Maximum number of connections. Others wait until one ends, which takes a few seconds at most while clients are idle.
const CONNECTIONS: usize = 64;
/// Maximum number of concurrent requests on an HTTP/2 connection.
const STREAMS: u32 = 16;

/// Address and certificate of the listener.
#[derive(Debug, Clone)]
pub struct Listen {
    pub endpoint: HttpEndpoint,
    /// `None`: serve in clear text.
    pub tls: Option<Arc<Tls>>,
}

/// Serves the pages until dropped. A listener that fails is logged and restarted every 10 s, so that it never stops the
/// driver. Watches the certificate's files.
///
/// Cancellation: dropping the future closes the listener and every connection.
pub async fn serve(listen: Listen, pages: Pages) {
    let metrics = Arc::clone(&pages.metrics);
    let watched = async {
        match &listen.tls {
            Some(tls) => tls.watch(&metrics).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = watched => {}
        () = listen_again_and_again(&listen, &pages) => {}
    }
}

async fn listen_again_and_again(listen: &Listen, pages: &Pages) {
    loop {
        match listen.endpoint.bind().await {
            Ok(listener) => run(listener, listen.tls.clone(), pages.clone()).await,
            Err(error) => tracing::error!(
                endpoint = %listen.endpoint,
                %error,
                "cannot listen for metrics and health, next attempt in 10 s; volumes are served meanwhile"
            ),
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn run(listener: TcpListener, tls: Option<Arc<Tls>>, pages: Pages) {
    match listener.local_addr() {
        Ok(address) => {
            tracing::info!(%address, tls = tls.is_some(), "serving /metrics, /healthz and /readyz");
        }
        Err(error) => tracing::warn!(%error, "failed to read the address of the metrics listener"),
    }
    let metrics = Arc::clone(&pages.metrics);
    let app = pages.router();
    let mut connections = JoinSet::new();
    loop {
        let has_room = connections.len() < CONNECTIONS;
        tokio::select! {
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(answer(stream, tls.clone(), app.clone(), Arc::clone(&metrics)));
                }
                Err(error) if is_of_one_client(&error) => tracing::debug!(%error, "client disconnected before accept"),
                Err(error) => {
                    tracing::error!(%error, "metrics listener failed, next attempt in 10 s");
                    return;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

fn is_of_one_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

async fn answer(stream: TcpStream, tls: Option<Arc<Tls>>, app: Router, metrics: Arc<Metrics>) {
    let Some(tls) = tls else { return answer_http1(stream, app).await };
    let config = tls.current(&metrics).await;
    match timeout(HEADERS_WITHIN, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP2) => answer_http2(stream, app).await,
        Ok(Ok(stream)) => answer_http1(stream, app).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake of a metrics or health client failed"),
        Err(_elapsed) => tracing::debug!("TLS handshake of a metrics or health client timed out"),
    }
}

async fn answer_http1<S>(stream: S, app: Router)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    bounded(connection, |connection| connection.graceful_shutdown()).await;
}

async fn answer_http2<S>(stream: S, app: Router)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(HEADERS_WITHIN)
        .keep_alive_timeout(HEADERS_WITHIN);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    bounded(connection, |connection| connection.graceful_shutdown()).await;
}

/// Serves a connection for its lifetime. `end` starts its graceful shutdown.
async fn bounded<C>(connection: C, end: impl FnOnce(Pin<&mut C>))
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut connection = pin!(connection);
    let ended = match timeout(LIFETIME, connection.as_mut()).await {
        Ok(ended) => ended,
        Err(_elapsed) => {
            end(connection.as_mut());
            match timeout(FAREWELL, connection).await {
                Ok(ended) => ended,
                Err(_elapsed) => return tracing::debug!("closed a metrics or health connection after its time limit"),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "metrics or health connection failed");
    }
}

#[cfg(test)]
mod tests;

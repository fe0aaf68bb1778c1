//! The HTTP listener of `/healthz`, and of `/debug/pprof/` if it is enabled.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::diagnostics;
use crate::health::Check;
use crate::local::is_of_one_client;

/// Pause before a failed listener is started again.
const RETRY: Duration = Duration::from_secs(10);
/// How long a client may take to send its headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(3);
/// Maximum lifetime of a connection.
const LIFETIME: Duration = Duration::from_secs(60);
/// Maximum number of concurrent connections; others wait.
const CONNECTIONS: usize = 32;

/// The listen address: `HOST:PORT`, or `:PORT` for all addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpAddress(String);

impl HttpAddress {
    /// Checks the form. Whether the host resolves shows when the listener starts.
    ///
    /// # Errors
    /// The expected form, as the end of a sentence.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
            port.parse::<u16>().is_ok() && (!host.contains(':') || (host.starts_with('[') && host.ends_with(']')))
        });
        if has_port {
            Ok(Self(text.to_owned()))
        } else {
            Err("it must be HOST:PORT, or :PORT for all addresses".to_owned())
        }
    }

    /// Binds the address. `:port` binds both address families if the machine has both.
    async fn bind(&self) -> io::Result<TcpListener> {
        let Some(port) = self.0.strip_prefix(':') else { return TcpListener::bind(&self.0).await };
        match TcpListener::bind(format!("[::]:{port}")).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await,
        }
    }
}

/// The pages to serve.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) check: Check,
    /// Whether to serve `/debug/pprof/` too.
    pub(crate) diagnostics: bool,
}

/// Serves until dropped. If the listener cannot start or fails, logs it and retries every ten seconds; the kubelet is
/// served meanwhile.
///
/// Cancellation: dropping the future closes the listener and every connection.
pub(crate) async fn serve(address: &HttpAddress, pages: Pages) -> Infallible {
    let pages = Arc::new(pages);
    loop {
        match address.bind().await {
            Ok(listener) => run(listener, &pages).await,
            Err(error) => tracing::error!(
                address = address.0,
                %error,
                "failed to listen for health checks, retrying in {RETRY:?}"
            ),
        }
        sleep(RETRY).await;
    }
}

async fn run(listener: TcpListener, pages: &Arc<Pages>) {
    match listener.local_addr() {
        Ok(address) => tracing::info!(%address, diagnostics = pages.diagnostics, "serving /healthz"),
        Err(error) => tracing::warn!(%error, "failed to read the address of the health listener"),
    }
    let mut connections = JoinSet::new();
    loop {
        let has_room = connections.len() < CONNECTIONS;
        tokio::select! {
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(converse(stream, Arc::clone(pages)));
                }
                Err(error) if is_of_one_client(&error) => tracing::debug!(%error, "client disconnected before it was accepted"),
                Err(error) => return tracing::error!(%error, "health listener failed, retrying in {RETRY:?}"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(stream: TcpStream, pages: Arc<Pages>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
    let service = service_fn(move |request: Request<Incoming>| {
        let pages = Arc::clone(&pages);
        async move { Ok::<_, Infallible>(pages.respond(request.uri().path()).await) }
    });
    let connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    match timeout(LIFETIME, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "health check connection ended early"),
        Err(_elapsed) => tracing::debug!("health check connection closed after its time limit"),
    }
}

impl Pages {
    async fn respond(&self, path: &str) -> Response<Full<Bytes>> {
        let (status, text) = match path {
            "/healthz" => self.check.answer().await,
            path if self.diagnostics => diagnostics::page(path),
            _ => (http::StatusCode::NOT_FOUND, "404 page not found".to_owned()),
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_address_requires_a_port() {
        for good in [":9809", "0.0.0.0:9809", "localhost:80", "[::1]:80"] {
            assert!(HttpAddress::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "9809", "localhost", "localhost:", "localhost:http", "::1:80", "0.0.0.0:70000"] {
            assert!(HttpAddress::parse(bad).is_err(), "{bad}");
        }
    }
}

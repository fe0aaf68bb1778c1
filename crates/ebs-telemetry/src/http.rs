//! The pages `/metrics`, `/healthz` and `/readyz`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::rate::RateLimit;
use crate::{Metrics, Readiness};

/// How long a listener that failed is left alone before it is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// How long a client may take to send its headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(3);
/// `/metrics` is given away this often, all clients together: at once, and each second.
const METRICS_BURST: u32 = 10;
const METRICS_PER_SECOND: u32 = 5;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A TCP listen address as the driver's users write it: `host:port`, or `:port` for all addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpEndpoint(String);

/// Not a listen address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a listen address: give host:port, or :port for all addresses")]
pub struct BadHttpEndpoint(String);

impl std::str::FromStr for HttpEndpoint {
    type Err = BadHttpEndpoint;

    /// Checks the form; whether the host can be resolved shows when the listener starts.
    fn from_str(text: &str) -> Result<Self, BadHttpEndpoint> {
        let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
            port.parse::<u16>().is_ok() && (!host.contains(':') || (host.starts_with('[') && host.ends_with(']')))
        });
        if has_port { Ok(Self(text.to_owned())) } else { Err(BadHttpEndpoint(text.to_owned())) }
    }
}

impl HttpEndpoint {
    /// Binds; `:port` means both families where the machine has both.
    async fn bind(&self) -> std::io::Result<TcpListener> {
        let Some(port) = self.0.strip_prefix(':') else { return TcpListener::bind(&self.0).await };
        match TcpListener::bind(format!("[::]:{port}")).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await,
        }
    }
}

/// What the pages show.
#[derive(Debug, Clone)]
pub struct Pages {
    /// For `/metrics`.
    pub metrics: Arc<Metrics>,
    /// For `/readyz`.
    pub readiness: Readiness,
}

impl Pages {
    fn router(self) -> Router {
        let limit = Arc::new(RateLimit::new(METRICS_BURST, METRICS_PER_SECOND));
        Router::new()
            .route("/metrics", get(|pages| async move { metrics(&limit, pages) }))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .with_state(self)
    }
}

/// Serves the pages until dropped. A listener that cannot start or that fails is logged and tried again every ten
/// seconds: the driver's real work goes on without it (`runtime.md` R-15).
///
/// Cancellation: dropping the future closes the listener and every connection.
pub async fn serve(endpoint: HttpEndpoint, pages: Pages) {
    loop {
        match endpoint.bind().await {
            Ok(listener) => run(listener, pages.clone()).await,
            Err(error) => tracing::error!(
                endpoint = endpoint.0,
                %error,
                "cannot listen for metrics and health; volumes are served without, next try in 10 s"
            ),
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn run(listener: TcpListener, pages: Pages) {
    match listener.local_addr() {
        Ok(address) => tracing::info!(%address, "serving /metrics, /healthz and /readyz"),
        Err(error) => tracing::warn!(%error, "the metrics listener does not know its address"),
    }
    let app = pages.router();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => { connections.spawn(answer(stream, app.clone())); }
                Err(error) => {
                    tracing::error!(%error, "the metrics listener failed; next try in 10 s");
                    return;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(stream: TcpStream, app: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection for metrics or health ended early");
    }
}

fn metrics(limit: &RateLimit, State(pages): State<Pages>) -> Response {
    if !limit.admit() {
        return (StatusCode::TOO_MANY_REQUESTS, "too many requests\n").into_response();
    }
    ([(header::CONTENT_TYPE, OPEN_METRICS)], pages.metrics.page()).into_response()
}

async fn ready(State(pages): State<Pages>) -> impl IntoResponse {
    match pages.readiness.get() {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pages() -> Pages {
        Pages { metrics: Arc::new(Metrics::default()), readiness: Readiness::starting("EC2 has not answered yet") }
    }

    async fn fetch(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        reply
    }

    async fn started(pages: Pages) -> (JoinSet<()>, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(run(listener, pages));
        (tasks, address)
    }

    /// Anything but the metrics and health pages is 404.
    ///
    /// Rule: runtime.md 11.1
    #[tokio::test]
    async fn metrics_are_open_metrics_text_and_anything_else_is_404() {
        let pages = pages();
        pages.metrics.count_rpc("Probe", "OK");
        let (_tasks, address) = started(pages).await;
        let page = fetch(address, "/metrics").await;
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(page.contains(OPEN_METRICS), "{page}");
        assert!(page.contains(r#"method="Probe",code="OK"} 1"#), "{page}");
        assert!(fetch(address, "/").await.starts_with("HTTP/1.1 404"));
    }

    /// `/metrics` is given 10 times at once and 5 times a second, then 429; health pages are not limited.
    ///
    /// Rule: ebs-cloud.md 12
    #[tokio::test(start_paused = true)]
    async fn more_than_the_allowed_rate_of_metrics_is_refused_with_429() {
        // Without connections: between two of them, on a busy machine, the next page may have become due.
        let service = TowerToHyperService::new(pages().router().into_service());
        let status = async |path: &str| {
            let request = axum::http::Request::get(path).body(axum::body::Body::empty()).unwrap();
            hyper::service::Service::call(&service, request).await.unwrap().status()
        };
        for _ in 0..METRICS_BURST {
            assert_eq!(status("/metrics").await, StatusCode::OK);
        }
        for _ in 0..3 {
            assert_eq!(status("/metrics").await, StatusCode::TOO_MANY_REQUESTS);
        }
        assert_eq!(status("/healthz").await, StatusCode::OK, "only /metrics is limited");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(status("/metrics").await, StatusCode::OK, "the next ones are due");
    }

    /// A client of the metrics port has 3 s to send its request.
    ///
    /// Rule: ebs-cloud.md 14
    #[tokio::test]
    async fn a_client_that_sends_no_request_is_cut_off() {
        let (_tasks, address) = started(pages()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n").await.unwrap();
        let mut reply = Vec::new();
        let ended = tokio::time::timeout(HEADERS_WITHIN * 5, stream.read_to_end(&mut reply)).await;
        ended.expect("the connection must be closed").unwrap();
    }

    /// Not being ready is shown with its reason and never as ill health.
    ///
    /// Rule: D-18
    #[tokio::test]
    async fn readyz_shows_why_not_while_healthz_stays_ok() {
        let pages = pages();
        let (_tasks, address) = started(pages.clone()).await;
        let reply = fetch(address, "/readyz").await;
        assert!(reply.starts_with("HTTP/1.1 503"), "{reply}");
        assert!(reply.contains("EC2 has not answered yet"), "{reply}");
        assert!(fetch(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        pages.readiness.set_ready();
        assert!(fetch(address, "/readyz").await.starts_with("HTTP/1.1 200"));
    }

    /// A metrics listener that fails never stops the driver and is tried again.
    ///
    /// Rule: runtime.md R-15
    #[tokio::test(start_paused = true)]
    async fn a_listener_that_cannot_start_is_tried_again_until_it_can() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(address.to_string().parse().unwrap(), pages()));
        let ended = tokio::time::timeout(RETRY * 3, tasks.join_next()).await;
        assert!(ended.is_err(), "serve must not return while the address is taken");
        drop(taken);
        let served = tokio::time::timeout(RETRY * 3, async {
            while TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(RETRY / 2).await;
            }
        });
        served.await.expect("the listener must come back");
    }

    #[test]
    fn an_endpoint_needs_a_port() {
        for good in [":3301", "0.0.0.0:3302", "localhost:80", "[::1]:80"] {
            assert!(good.parse::<HttpEndpoint>().is_ok(), "{good}");
        }
        for bad in ["", "3301", "localhost", "localhost:", "localhost:http", "::1:80", "0.0.0.0:70000"] {
            assert!(bad.parse::<HttpEndpoint>().is_err(), "{bad}");
        }
    }
}

//! The metrics endpoint over plain HTTP.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Metrics;
use super::page::CONTENT_TYPE;

/// Concurrent connections; a scraper needs one.
const CONNECTIONS: usize = 32;
const HEADER_LIMIT: Duration = Duration::from_secs(10);

/// A bound listener that does not serve yet. An address that is not available fails the start.
#[derive(Debug)]
pub(crate) struct MetricsListener(TcpListener);

impl MetricsListener {
    /// Binds to an address like `127.0.0.1:8888` or `:8888`.
    pub(crate) async fn bind(address: &str) -> io::Result<Self> {
        let address = if address.starts_with(':') { format!("0.0.0.0{address}") } else { address.to_owned() };
        Ok(Self(TcpListener::bind(address).await?))
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves until `stop` is cancelled.
    pub(crate) async fn serve(self, metrics: Arc<Metrics>, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(_) = connections.join_next() => {}
                accepted = self.0.accept(), if connections.len() < CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(connection(stream, Arc::clone(&metrics)));
                    }
                    // The process is out of handles; each connection releases one when it ends.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
            }
        }
    }
}

async fn connection(stream: TcpStream, metrics: Arc<Metrics>) {
    let service = service_fn(move |request| {
        let answer = answer(&request, &metrics);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_LIMIT);
    // A client that disconnects early is not an error.
    let _ignored = server.serve_connection(TokioIo::new(stream), service).await;
}

fn answer(request: &Request<Incoming>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, kind, text) = match request.uri().path() {
        "/metrics" if is_read => (StatusCode::OK, CONTENT_TYPE, metrics.page()),
        "/metrics" => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", String::new()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "404 page not found\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn metrics_are_served_over_http_and_a_taken_port_fails() {
        let listener = MetricsListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.address().unwrap();
        assert!(MetricsListener::bind(&address.to_string()).await.is_err());
        let (metrics, stop) = (Arc::new(Metrics::new(crate::figures::Figures::default)), CancellationToken::new());
        metrics.started("v1.Disk", "Rescan");
        let mut tasks = JoinSet::new();
        tasks.spawn(listener.serve(metrics, stop.clone()));
        let page = get(address, "GET /metrics").await;
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("text/plain; version=0.0.4"), "{page}");
        assert!(page.contains("grpc_server_started_total{"), "{page}");
        assert!(get(address, "GET /").await.starts_with("HTTP/1.1 404"));
        assert!(get(address, "POST /metrics").await.starts_with("HTTP/1.1 405"));
        stop.cancel();
        tasks.join_next().await.unwrap().unwrap();
    }
}

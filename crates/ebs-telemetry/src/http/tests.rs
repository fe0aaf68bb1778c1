use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::pages::METRICS_BURST;
use super::*;
use crate::{Metrics, Readiness};

fn pages() -> Pages {
    Pages { metrics: Arc::new(Metrics::default()), readiness: Readiness::starting("EC2 has not answered yet") }
}

async fn request(address: std::net::SocketAddr, path: &str, headers: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await.unwrap();
    reply
}

async fn fetch(address: std::net::SocketAddr, path: &str) -> String {
    String::from_utf8(request(address, path, "").await).unwrap()
}

async fn started(pages: Pages) -> (JoinSet<()>, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    let app = pages.router();
    tasks.spawn(async { match component_base::http::serve_on(listener, ClearText, app).await {} });
    (tasks, address)
}

#[tokio::test]
async fn metrics_have_text_format_and_unknown_path_is_404() {
    let pages = pages();
    pages.metrics.count_rpc("Probe", "OK", Duration::from_millis(1));
    let (_tasks, address) = started(pages).await;
    let page = fetch(address, "/metrics").await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{page}");
    assert!(page.contains("\naws_ebs_csi_rpc_requests_total{code=\"OK\",method=\"Probe\"} 1\n"), "{page}");
    for path in ["/", "/metrics/", "/metric", "/debug/pprof"] {
        assert!(fetch(address, path).await.starts_with("HTTP/1.1 404"), "{path}");
    }
}

#[tokio::test]
async fn page_is_compressed_only_for_client_that_accepts_gzip() {
    let (_tasks, address) = started(pages()).await;
    let compressed = request(address, "/metrics", "Accept-Encoding: gzip\r\n").await;
    let end_of_headers = compressed.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let headers = String::from_utf8_lossy(&compressed[..end_of_headers]).to_lowercase();
    assert!(headers.contains("content-encoding: gzip\r\n"), "{headers}");
    let begin_of_gzip = compressed[end_of_headers..].windows(2).position(|two| two == [0x1f, 0x8b]);
    assert!(begin_of_gzip.is_some_and(|at| at < 16), "the body, or its first chunk, is gzip");
    for headers in ["", "Accept-Encoding: identity\r\n", "Accept-Encoding: gzip;q=0\r\n"] {
        let plain = String::from_utf8(request(address, "/metrics", headers).await).unwrap();
        assert!(plain.contains("\naws_ebs_csi_panics_total 0\n"), "{headers}: {plain}");
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_request_over_rate_limit_gets_429() {
    // Call the router without connections: on a busy machine, opening a connection could take so long that the rate
    // limit allows the next request.
    let app = pages().router();
    let status = async |path: &str| {
        let request = axum::http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    for _ in 0..METRICS_BURST {
        assert_eq!(status("/metrics").await, 200);
    }
    for _ in 0..3 {
        assert_eq!(status("/metrics").await, 429);
    }
    assert_eq!(status("/healthz").await, 200, "only /metrics is limited");
    assert_eq!(status("/readyz").await, 503, "only /metrics is limited");
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..pages::METRICS_PER_SECOND {
        assert_eq!(status("/metrics").await, 200, "these are due");
    }
    assert_eq!(status("/metrics").await, 429);
}

#[tokio::test]
async fn readyz_shows_reason_while_healthz_stays_ok() {
    let pages = pages();
    let (_tasks, address) = started(pages.clone()).await;
    let reply = fetch(address, "/readyz").await;
    assert!(reply.starts_with("HTTP/1.1 503"), "{reply}");
    assert!(reply.contains("EC2 has not answered yet"), "{reply}");
    assert!(fetch(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    pages.readiness.set_ready();
    assert!(fetch(address, "/readyz").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn liveness_page_reports_each_result_of_its_check() {
    let results = Arc::new(std::sync::Mutex::new(vec![Err("no socket".to_owned()), Ok(())]));
    let app = liveness::router(move || {
        let result = results.lock().unwrap().pop().unwrap();
        async move { result }
    });
    for (status, body) in [(200, "ok\n"), (503, "not healthy: no socket\n")] {
        let request = axum::http::Request::get("/healthz").body(axum::body::Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(axum::body::to_bytes(response.into_body(), 100).await.unwrap(), body);
    }
}

use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

async fn started() -> (JoinSet<()>, std::net::SocketAddr) {
    let listener = "127.0.0.1:0".parse::<HttpEndpoint>().unwrap().bind().await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/healthz", get(async || "ok\n"));
    let mut tasks = JoinSet::new();
    tasks.spawn(async { match serve_on(listener, ClearText, app).await {} });
    (tasks, address)
}

async fn sent(address: std::net::SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut reply = String::new();
    let ended = timeout(HEADERS_WITHIN * 20, stream.read_to_string(&mut reply)).await;
    ended.expect("the connection must be closed").unwrap();
    reply
}

fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn only_get_and_head_of_known_pages_are_answered() {
    let (_tasks, address) = started().await;
    for (method, path, status) in [
        ("GET", "/healthz", 200),
        ("HEAD", "/healthz", 200),
        ("POST", "/healthz", 405),
        ("GET", "/", 404),
        ("GET", "/healthz/", 404),
    ] {
        let reply = sent(address, &request(method, path)).await;
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {path}: {reply}");
    }
}

/// A client has 3 s to send its request.
#[tokio::test]
async fn client_is_disconnected_if_its_request_is_incomplete() {
    let (_tasks, address) = started().await;
    tokio::join!(sent(address, ""), sent(address, "GET /healthz HTTP/1.1\r\n"), sent(address, "GET"));
}

/// The listener disconnects idle clients to make room for others.
#[tokio::test]
async fn idle_connections_do_not_block_other_clients() {
    let (_tasks, address) = started().await;
    let mut held = Vec::new();
    for _ in 0..2 * CONNECTIONS {
        held.push(TcpStream::connect(address).await.unwrap());
    }
    assert!(sent(address, &request("GET", "/healthz")).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(start_paused = true)]
async fn connection_is_closed_after_its_lifetime() {
    let mut asked = false;
    let ended = timeout(LIFETIME + FAREWELL * 2, bounded(std::future::pending(), |_| asked = true)).await;
    assert!(ended.is_ok() && asked, "asked to end first, then cut off");
}

#[tokio::test(start_paused = true)]
async fn listener_retries_until_its_address_is_free() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { serve(&address.to_string().parse().unwrap(), "/", ClearText, Router::new()).await });
    let ended = timeout(RETRY * 3, tasks.join_next()).await;
    assert!(ended.is_err(), "serve must not return while the address is taken");
    drop(taken);
    let served = timeout(RETRY * 3, async {
        while TcpStream::connect(address).await.is_err() {
            sleep(RETRY / 2).await;
        }
    });
    served.await.expect("the listener must come back");
}

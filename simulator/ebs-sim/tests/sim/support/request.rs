//! Handwritten HTTP requests. Each uses its own connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Sends `METHOD path` with these header lines and body to `http://host:port`.
pub(crate) async fn send(url: &str, method_and_path: &str, headers: &[&str], body: &str) -> Reply {
    let host = url.strip_prefix("http://").unwrap();
    let mut request = format!("{method_and_path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for header in headers {
        request.push_str(&format!("{header}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    let exchange = async {
        let mut stream = TcpStream::connect(host).await.unwrap();
        // The server may answer and close the connection before it has read everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        bytes
    };
    let bytes = tokio::time::timeout(Duration::from_secs(120), exchange).await.expect("an answer within two minutes");
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, body: body.to_owned() }
}

pub(crate) async fn ec2(url: &str, form: &str) -> Reply {
    let form = format!("{form}&Version=2016-11-15");
    send(url, "POST /", &["Content-Type: application/x-www-form-urlencoded; charset=utf-8"], &form).await
}

pub(crate) async fn json(url: &str, path: &str) -> serde_json::Value {
    let reply = send(url, &format!("GET {path}"), &[], "").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    serde_json::from_str(&reply.body).unwrap()
}

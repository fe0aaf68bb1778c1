//! Sends requests without a session token (IMDSv1), which the SDK's client does not support.

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Maximum size of a response in bytes.
const MAX_BODY: usize = 1 << 20;

#[derive(Debug, Clone)]
pub(crate) struct PlainClient {
    host: String,
    port: u16,
    authority: String,
}

impl PlainClient {
    /// Returns `None` if the endpoint is not an `http://` URL of a host.
    pub(crate) fn new(endpoint: &str) -> Option<Self> {
        let uri: Uri = endpoint.parse().ok()?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"))?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return None;
        }
        Some(Self { host, port: authority.port_u16().unwrap_or(80), authority: authority.to_string() })
    }

    /// Sends a GET and returns status and body. The caller sets the timeout; dropping the future closes the connection.
    pub(crate) async fn get(&self, path: &str) -> Result<(u16, String), Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let request = Request::get(path).header(header::HOST, &self.authority).body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await?.to_bytes();
        Ok((status, String::from_utf8(body.to_vec())?))
    }
}

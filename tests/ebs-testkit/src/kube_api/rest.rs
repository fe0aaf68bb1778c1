//! Single requests to the API server as its administrator, for tests without a Kubernetes client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

/// Time limit of a response. The server runs on this machine, which may be busy.
const ANSWER_BOUND: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// The object, or a `Status` with the error. A body that is not JSON becomes a JSON string.
    pub body: Value,
}

impl Answer {
    /// Returns the object if the response is a success, and its status as an error otherwise.
    pub fn granted(self) -> anyhow::Result<Value> {
        if !(200..300).contains(&self.status) {
            bail!("the API server returned {}: {}", self.status, self.body);
        }
        Ok(self.body)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Rest {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    token: String,
}

impl Rest {
    pub(super) fn new(address: SocketAddr, ca: CertificateDer<'static>, token: &str) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(ca).context("add the authority of the API server")?;
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .context("TLS of the API server's client")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, tls: Arc::new(tls), token: token.to_owned() })
    }

    /// Sends one request over a new connection.
    pub(super) async fn call(&self, method: &str, path: &str, body: Option<(&str, Vec<u8>)>) -> anyhow::Result<Answer> {
        let answer = tokio::time::timeout(ANSWER_BOUND, self.ask(method, path, body)).await;
        answer.with_context(|| format!("{method} {path}: no reply"))?.with_context(|| format!("{method} {path}"))
    }

    async fn ask(&self, method: &str, path: &str, body: Option<(&str, Vec<u8>)>) -> anyhow::Result<Answer> {
        let stream = TcpStream::connect(self.address).await.context("connect to the API server")?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await.context("TLS")?;
        let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut background = JoinSet::new();
        background.spawn(connection);
        let request = Request::builder()
            .method(Method::from_bytes(method.as_bytes())?)
            .uri(path)
            .header("host", self.address.to_string())
            .header("authorization", format!("Bearer {}", self.token));
        let request = match body {
            Some((kind, body)) => request.header("content-type", kind).body(Full::new(Bytes::from(body)))?,
            None => request.body(Full::default())?,
        };
        let answer = send.send_request(request).await.context("send the request")?;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.context("read the reply")?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Answer { status, body })
    }
}

//! The TLS certificate of the pages, which the driver reloads after a renewal.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::Version;
use component_base::http::Handshake;
use component_base::logs::chain;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Metrics;

/// The protocol names for ALPN.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// How often the files are checked if no clients connect.
const WATCH: Duration = Duration::from_secs(10);
/// The shortest time between two checks that clients trigger.
const FRESH: Duration = Duration::from_secs(1);
const READ_WITHIN: Duration = Duration::from_secs(3);
/// The time limit for reading the files at startup: on a busy machine, starting late is better than failing.
const LOAD_WITHIN: Duration = Duration::from_secs(60);

/// The paths of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The PEM file with the certificate, followed by its issuers' certificates.
    pub certificate: PathBuf,
    /// The PEM file with the private key.
    pub key: PathBuf,
}

/// Why the driver cannot serve a certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("parse {}: invalid PEM of a certificate or key", path.display())]
    Pem { path: PathBuf, source: rustls_pki_types::pem::Error },
    #[error("parse {}: missing PEM certificate", path.display())]
    NoCertificate { path: PathBuf },
    #[error("use certificate {} with key {}", certificate.display(), key.display())]
    Pair { certificate: PathBuf, key: PathBuf, source: Box<rustls::Error> },
    #[error("read {}: no response from the file system within {} s", path.display(), within.as_secs())]
    Stuck { path: PathBuf, within: Duration },
}

/// The contents of both files. They include the private key, so they are never printed.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}

/// A certificate that is reloaded when its files change.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    served: Arc<ServerConfig>,
    /// The contents of the files from which the served certificate was loaded.
    contents: Contents,
    looked: Instant,
    /// Why the current files cannot be served, or `None` if they can.
    trouble: Option<String>,
}

impl Tls {
    /// Loads the files for the first time.
    pub async fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let contents = read(&files, LOAD_WITHIN).await?;
        let served = configuration(&files, &contents)?;
        Ok(Self { files, state: Mutex::new(State { served, contents, looked: Instant::now(), trouble: None }) })
    }

    async fn current(&self, metrics: &Metrics) -> Arc<ServerConfig> {
        if self.state().looked.elapsed() >= FRESH {
            self.look(metrics).await;
        }
        Arc::clone(&self.state().served)
    }

    /// Checks the files periodically, to report a broken renewal before the old certificate expires.
    pub(super) async fn watch(&self, metrics: &Metrics) {
        metrics.note_certificate(true);
        loop {
            tokio::time::sleep(WATCH).await;
            self.look(metrics).await;
        }
    }

    /// Reloads the files if their contents have changed. Keeps the previous certificate if the new pair is invalid, and
    /// retries at the next check, because the second file of a pair may be written later. Ignores modification times,
    /// because Kubernetes or Windows can replace a file without changing them.
    async fn look(&self, metrics: &Metrics) {
        self.state().looked = Instant::now();
        let read = read(&self.files, READ_WITHIN).await;
        let mut state = self.state();
        let certificate = self.files.certificate.display();
        let adopted = match read {
            Ok(contents) if contents == state.contents => {
                if state.trouble.is_some() {
                    tracing::info!(%certificate, "files of the metrics certificate match the served certificate again");
                }
                Ok(())
            }
            Ok(contents) => configuration(&self.files, &contents).map(|served| {
                tracing::info!(%certificate, "serving metrics with a new certificate");
                (state.served, state.contents) = (served, contents);
            }),
            Err(error) => Err(error),
        };
        let trouble = adopted.err().map(|error| chain(&error));
        if let Some(error) = trouble.as_ref().filter(|error| Some(*error) != state.trouble.as_ref()) {
            tracing::error!(error, "failed to reload the metrics certificate, serving the previous one");
        }
        metrics.note_certificate(trouble.is_none());
        state.trouble = trouble;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Performs TLS handshakes, and records in a metric whether the certificate is current.
pub(super) struct WithMetrics {
    pub(super) tls: Arc<Tls>,
    pub(super) metrics: Arc<Metrics>,
}

impl Handshake for WithMetrics {
    type Stream = TlsStream<TcpStream>;
    const IS_TLS: bool = true;

    async fn shake(&self, stream: TcpStream) -> io::Result<(Self::Stream, Version)> {
        let config = self.tls.current(&self.metrics).await;
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        Ok((stream, if is_http2 { Version::HTTP_2 } else { Version::HTTP_11 }))
    }
}

async fn read(files: &TlsFiles, within: Duration) -> Result<Contents, TlsError> {
    let contents = async |path: &Path| match tokio::time::timeout(within, tokio::fs::read(path)).await {
        Ok(read) => read.map_err(|source| TlsError::Read { path: path.to_owned(), source }),
        Err(_elapsed) => Err(TlsError::Stuck { path: path.to_owned(), within }),
    };
    Ok(Contents { certificate: contents(&files.certificate).await?, key: contents(&files.key).await? })
}

fn configuration(files: &TlsFiles, Contents { certificate, key }: &Contents) -> Result<Arc<ServerConfig>, TlsError> {
    let pem = |path: &Path, source| TlsError::Pem { path: path.to_owned(), source };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| pem(&files.certificate, error))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: files.certificate.clone() });
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| pem(&files.key, error))?;
    let pair = |error| {
        let source = Box::new(error);
        TlsError::Pair { certificate: files.certificate.clone(), key: files.key.clone(), source }
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(pair)?;
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests;

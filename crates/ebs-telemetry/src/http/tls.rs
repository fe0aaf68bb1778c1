//! The certificate of the pages, and its renewal while the driver runs.

use std::io;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
#[cfg(windows)]
use std::os::windows::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::Instant;

use crate::Metrics;

/// The ALPN name of HTTP/2.
pub(super) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// Interval at which the files are checked without clients.
const WATCH: Duration = Duration::from_secs(10);
/// Minimum interval between checks of the files that clients trigger.
const FRESH: Duration = Duration::from_secs(1);
/// Timeout of reading the files.
const READ_WITHIN: Duration = Duration::from_secs(3);
/// Timeout of reading the files at the start, which fails without them. It is long because a busy machine should start
/// late rather than not at all.
const LOAD_WITHIN: Duration = Duration::from_secs(60);

/// The paths of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: the certificate, followed by the certificates of its issuers.
    pub certificate: PathBuf,
    /// PEM: its private key.
    pub key: PathBuf,
}

/// A certificate that the driver cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("parse {}: invalid PEM of a certificate or key", path.display())]
    Pem { path: PathBuf, source: rustls_pki_types::pem::Error },
    #[error("parse {}: missing PEM certificate", path.display())]
    NoCertificate { path: PathBuf },
    #[error("use certificate {} with key {}", certificate.display(), key.display())]
    Pair { certificate: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("read {}: no response from the file system within {} s", path.display(), within.as_secs())]
    Stuck { path: PathBuf, within: Duration },
    #[error("read {}: changed during the read", path.display())]
    Changing { path: PathBuf },
}

/// Identifies a version of a file. A secret of Kubernetes is a symlink that is redirected to another directory, which
/// replaces the file behind the path.
#[cfg(unix)]
type Trace = (u64, u64, i64, i64, u64);
#[cfg(windows)]
type Trace = (u64, u64, u64);

/// A certificate that is reloaded when its files change.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    served: Arc<ServerConfig>,
    /// Versions of the files from which it was loaded.
    traces: [Trace; 2],
    looked: Instant,
    /// The reason why the current files cannot be served, if they cannot.
    trouble: Option<String>,
}

impl Tls {
    /// Loads the files for the first time.
    ///
    /// # Errors
    /// [`TlsError`], which names the file and the problem.
    pub async fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let (served, traces) = read(&files, LOAD_WITHIN).await?;
        Ok(Self { files, state: Mutex::new(State { served, traces, looked: Instant::now(), trouble: None }) })
    }

    /// Returns the configuration for a new client.
    pub(super) async fn current(&self, metrics: &Metrics) -> Arc<ServerConfig> {
        if self.state().looked.elapsed() >= FRESH {
            self.look(metrics).await;
        }
        Arc::clone(&self.state().served)
    }

    /// Checks the files periodically, so that log and metrics report a broken renewal before the old certificate
    /// expires.
    pub(super) async fn watch(&self, metrics: &Metrics) {
        metrics.note_certificate(true);
        loop {
            tokio::time::sleep(WATCH).await;
            self.look(metrics).await;
        }
    }

    /// Reloads the files if they have changed. An invalid pair is not adopted. The next check tries again, because the
    /// second file of a pair may be written later.
    async fn look(&self, metrics: &Metrics) {
        self.state().looked = Instant::now();
        let (traces, in_trouble) = {
            let state = self.state();
            (state.traces, state.trouble.is_some())
        };
        if !in_trouble && self.traces().await.is_some_and(|now| now == traces) {
            return;
        }
        let read = read(&self.files, READ_WITHIN).await;
        let mut state = self.state();
        match read {
            Ok((served, read)) => {
                if read != state.traces {
                    tracing::info!(certificate = %self.files.certificate.display(), "serving metrics with a new certificate");
                    state.served = served;
                    state.traces = read;
                } else if state.trouble.is_some() {
                    tracing::info!(certificate = %self.files.certificate.display(), "files of the metrics certificate are unchanged again");
                }
                state.trouble = None;
            }
            Err(error) => {
                let trouble = chain(&error);
                if state.trouble.as_ref() != Some(&trouble) {
                    tracing::error!(
                        error = trouble,
                        "failed to reload the metrics certificate, serving the previous one"
                    );
                }
                state.trouble = Some(trouble);
            }
        }
        metrics.note_certificate(state.trouble.is_none());
    }

    async fn traces(&self) -> Option<[Trace; 2]> {
        let both = async { Ok([trace(&self.files.certificate).await?, trace(&self.files.key).await?]) };
        tokio::time::timeout(READ_WITHIN, both).await.ok().and_then(|both: io::Result<_>| both.ok())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads both files. A pair that changed in between is invalid.
async fn read(files: &TlsFiles, within: Duration) -> Result<(Arc<ServerConfig>, [Trace; 2]), TlsError> {
    let (certificate, certificate_trace) = contents(&files.certificate, within).await?;
    let (key, key_trace) = contents(&files.key, within).await?;
    let pem = |path: &Path, source| TlsError::Pem { path: path.to_owned(), source };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&certificate)
        .collect::<Result<_, _>>()
        .map_err(|e| pem(&files.certificate, e))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: files.certificate.clone() });
    }
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| pem(&files.key, error))?;
    let pair = |source| TlsError::Pair { certificate: files.certificate.clone(), key: files.key.clone(), source };
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(pair)?;
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok((Arc::new(config), [certificate_trace, key_trace]))
}

/// Returns the content of a file with the version that was read.
async fn contents(path: &Path, within: Duration) -> Result<(Vec<u8>, Trace), TlsError> {
    let whole = async {
        let before = trace(path).await?;
        let contents = tokio::fs::read(path).await?;
        Ok((contents, before, trace(path).await?))
    };
    match tokio::time::timeout(within, whole).await {
        Ok(Ok((contents, before, after))) if before == after => Ok((contents, after)),
        Ok(Ok(_)) => Err(TlsError::Changing { path: path.to_owned() }),
        Ok(Err(source)) => Err(TlsError::Read { path: path.to_owned(), source }),
        Err(_elapsed) => Err(TlsError::Stuck { path: path.to_owned(), within }),
    }
}

async fn trace(path: &Path) -> io::Result<Trace> {
    let file = tokio::fs::metadata(path).await?;
    #[cfg(unix)]
    let trace = (file.dev(), file.ino(), file.mtime(), file.mtime_nsec(), file.size());
    // Stable Rust cannot identify a file on Windows. A renewal creates a new file, or writes to the existing one.
    #[cfg(windows)]
    let trace = (file.creation_time(), file.last_write_time(), file.file_size());
    Ok(trace)
}

/// Returns the error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests;

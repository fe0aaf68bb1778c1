use std::net::SocketAddr;
use std::os::unix::fs::symlink;

use axum::body::{Body, to_bytes};
use component_base::http::HEADERS_WITHIN;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::{Pages, Readiness};

/// The time limit for a wait, longer than two checks of the files on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

struct Pair {
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    key_pem: String,
}

impl Pair {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        Self { certificate, certificate_pem: made.cert.pem(), key_pem: made.signing_key.serialize_pem() }
    }

    /// Writes the files as Kubernetes writes a secret: behind a directory symlink that is replaced atomically.
    fn write(&self, secret: &Path, generation: &str) {
        let directory = secret.join(generation);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("tls.crt"), &self.certificate_pem).unwrap();
        std::fs::write(directory.join("tls.key"), &self.key_pem).unwrap();
        let turned = secret.join(format!("{generation}.new"));
        symlink(generation, &turned).unwrap();
        std::fs::rename(turned, secret.join("data")).unwrap();
    }
}

fn files(secret: &Path) -> TlsFiles {
    TlsFiles { certificate: secret.join("data/tls.crt"), key: secret.join("data/tls.key") }
}

struct Served {
    secret: tempfile::TempDir,
    address: SocketAddr,
    metrics: Arc<Metrics>,
    _tasks: JoinSet<()>,
}

impl Served {
    async fn with(pair: &Pair) -> Self {
        let secret = tempfile::tempdir().unwrap();
        pair.write(secret.path(), "first");
        let tls = Arc::new(Tls::load(files(secret.path())).await.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::default());
        let pages = Pages { metrics: Arc::clone(&metrics), readiness: Readiness::starting("starting") };
        let mut tasks = JoinSet::new();
        let handshake = WithMetrics { tls, metrics: Arc::clone(&metrics) };
        let app = pages.router();
        tasks.spawn(async { match component_base::http::serve_on(listener, handshake, app).await {} });
        Self { secret, address, metrics, _tasks: tasks }
    }

    async fn connect(&self, trusted: &Pair, client: Client) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.certificate.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(client.versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = client.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
    }

    async fn until_serves(&self, pair: &Pair) {
        let served = async {
            while self.connect(pair, Client::default()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(BOUND, served).await.expect("the new certificate is served");
    }

    /// Connects clients, each of which can trigger a check, until the metric shows this result.
    async fn until_current(&self, pair: &Pair, is_current: bool) {
        let line = format!("\naws_ebs_csi_metrics_certificate_last_reload_successful {}\n", u8::from(is_current));
        let seen = async {
            while !self.metrics.page().contains(&line) {
                self.connect(pair, Client::default()).await.expect("the one before is served meanwhile");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(BOUND, seen).await.unwrap_or_else(|_| panic!("{line}: {}", self.metrics.page()));
    }
}

#[derive(Clone, Copy)]
struct Client {
    versions: &'static [&'static SupportedProtocolVersion],
    protocols: &'static [&'static [u8]],
}

impl Default for Client {
    fn default() -> Self {
        Self { versions: rustls::ALL_VERSIONS, protocols: &[] }
    }
}

async fn get_over_http1(mut stream: TlsStream<TcpStream>) -> String {
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await.unwrap();
    String::from_utf8(reply).unwrap()
}

#[tokio::test]
async fn tls_serves_both_http_versions_and_no_clear_text() {
    let pair = Pair::new();
    let served = Served::with(&pair).await;
    for (version, expected) in
        [(&rustls::version::TLS12, ProtocolVersion::TLSv1_2), (&rustls::version::TLS13, ProtocolVersion::TLSv1_3)]
    {
        let versions: &'static [&'static SupportedProtocolVersion] = Box::leak(Box::new([version]));
        let client = Client { versions, protocols: &[b"http/1.1"] };
        let stream = served.connect(&pair, client).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(expected));
        let page = get_over_http1(stream).await;
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("aws_ebs_csi_panics_total"), "{page}");
    }
    let client = Client { protocols: &[b"h2", b"http/1.1"], ..Client::default() };
    let stream = served.connect(&pair, client).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(HTTP2));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let request = axum::http::Request::get("https://localhost/metrics").body(Body::empty()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    let page = to_bytes(Body::new(response.into_body()), 1 << 20).await.unwrap();
    assert!(String::from_utf8_lossy(&page).contains("aws_ebs_csi_panics_total"));
    let mut clear = TcpStream::connect(served.address).await.unwrap();
    clear.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut reply = Vec::new();
    // The server may send a TLS alert, or just close the connection.
    drop(tokio::time::timeout(BOUND, clear.read_to_end(&mut reply)).await.expect("it ends"));
    assert!(!String::from_utf8_lossy(&reply).contains("HTTP"));
}

#[tokio::test]
async fn client_without_handshake_is_disconnected() {
    let served = Served::with(&Pair::new()).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let mut reply = Vec::new();
    let ended = tokio::time::timeout(HEADERS_WITHIN * 20, stream.read_to_end(&mut reply)).await;
    assert!(ended.is_ok(), "the connection must be closed");
}

/// A new certificate is served as soon as its files exist, even if only a symlink changes, as for Kubernetes secrets.
/// If the new files are invalid, the previous certificate remains in use, and a metric shows it.
#[tokio::test]
async fn new_certificate_is_served_and_invalid_one_ignored() {
    let (first, second, third) = (Pair::new(), Pair::new(), Pair::new());
    let served = Served::with(&first).await;
    let secret = served.secret.path();
    served.connect(&first, Client::default()).await.unwrap();
    second.write(secret, "second");
    served.until_serves(&second).await;
    assert!(served.connect(&first, Client::default()).await.is_err(), "the first one is not served any more");
    // First the key belongs to another certificate, then a file has invalid PEM, and then one file is missing.
    let mixed = Pair { key_pem: first.key_pem.clone(), ..Pair::new() };
    mixed.write(secret, "mixed");
    served.until_current(&second, false).await;
    let empty = Pair { certificate_pem: "no certificate\n".to_owned(), ..Pair::new() };
    empty.write(secret, "empty");
    std::fs::remove_file(secret.join("data/tls.key")).unwrap();
    served.connect(&second, Client::default()).await.expect("the one before is served");
    // Restoring the original files ends the failure.
    let back = secret.join("back");
    symlink("second", &back).unwrap();
    std::fs::rename(&back, secret.join("data")).unwrap();
    served.until_current(&second, true).await;
    third.write(secret, "third");
    served.until_serves(&third).await;
    served.until_current(&third, true).await;
}

#[tokio::test]
async fn tls_files_are_checked_even_without_clients() {
    let secret = tempfile::tempdir().unwrap();
    Pair::new().write(secret.path(), "first");
    let tls = Tls::load(files(secret.path())).await.unwrap();
    let metrics = Metrics::default();
    std::fs::write(secret.path().join("data/tls.crt"), "broken").unwrap();
    let said = async {
        while !metrics.page().contains("\naws_ebs_csi_metrics_certificate_last_reload_successful 0\n") {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = tls.watch(&metrics) => unreachable!("it watches for ever"),
        said = tokio::time::timeout(BOUND, said) => said.expect("the broken file is seen"),
    }
}

#[tokio::test]
async fn unusable_tls_files_at_startup_are_named_in_the_error() {
    let secret = tempfile::tempdir().unwrap();
    let (pair, other) = (Pair::new(), Pair::new());
    let text = |text: &str| Some(text.to_owned());
    for (certificate, key, wrong) in [
        (None, text(&pair.key_pem), "read {crt}"),
        (text(&pair.certificate_pem), None, "read {key}"),
        (text(""), text(&pair.key_pem), "parse {crt}: missing PEM certificate"),
        (
            text("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"),
            text(&pair.key_pem),
            "parse {crt}: invalid PEM",
        ),
        (text(&pair.certificate_pem), text("no key"), "parse {key}: invalid PEM"),
        (text(&pair.certificate_pem), text(&other.key_pem), "with key {key}"),
    ] {
        let files = TlsFiles { certificate: secret.path().join("a.crt"), key: secret.path().join("a.key") };
        for (path, contents) in [(&files.certificate, certificate), (&files.key, key)] {
            match contents {
                Some(contents) => std::fs::write(path, contents).unwrap(),
                None => drop(std::fs::remove_file(path)),
            }
        }
        let wrong = wrong.replace("{crt}", &files.certificate.display().to_string());
        let wrong = wrong.replace("{key}", &files.key.display().to_string());
        let error = chain(&Tls::load(files).await.unwrap_err());
        assert!(error.contains(&wrong), "{error}, not {wrong}");
    }
}

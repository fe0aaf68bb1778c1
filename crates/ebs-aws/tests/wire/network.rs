//! How the environment determines the network path to EC2: proxies and the CA bundle. Each case runs in its own
//! process, because the environment belongs to the process.

use std::sync::{Arc, Mutex};

use ebs_ec2::{PageRequest, Volumes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::server::{CHILD, client, managed_volumes, printed_by_child, settings};

const REPLY: &str = "<DescribeVolumesResponse><requestId>r</requestId><volumeSet/></DescribeVolumesResponse>";

/// The child process that the other tests start, not a test itself. Prints the outcome of one call.
#[expect(clippy::print_stdout, reason = "a child talks to its parent so")]
#[tokio::test]
async fn child_calls_ec2_over_the_network() {
    let Ok(endpoint) = std::env::var(CHILD) else { return };
    let ec2 = client(&endpoint, settings()).await;
    match ec2.describe_volumes(&managed_volumes(), &PageRequest::default()).await {
        Ok(_) => println!("\nANSWERED"),
        Err(error) => println!("\nFAILED {error:?}"),
    }
}

async fn child(endpoint: &str, environment: &[(&str, &str)]) -> String {
    let (endpoint, environment) =
        (endpoint.to_owned(), environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    let environment: Vec<(String, String)> = environment.collect();
    let run = move || {
        let environment: Vec<(&str, &str)> = environment.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        printed_by_child("network::child_calls_ec2_over_the_network", &endpoint, &environment)
    };
    let text = tokio::task::spawn_blocking(run).await.unwrap();
    text.lines().find(|line| line.starts_with("ANSWERED") || line.starts_with("FAILED")).unwrap().to_owned()
}

/// A server that answers every request as EC2 does, over TLS if it has a certificate. It keeps the first line of each
/// request.
struct Listener {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Listener {
    async fn start(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&asked);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                match &tls {
                    None => drop(answer(stream, &kept).await),
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            drop(answer(stream, &kept).await);
                        }
                    }
                }
            }
        });
        Self { address, asked, _serving: serving }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, kept: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    kept.lock().unwrap().push(text.lines().next().unwrap_or_default().to_owned());
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", REPLY.len());
    stream.write_all(format!("{head}{REPLY}").as_bytes()).await?;
    stream.shutdown().await
}

/// Each scheme has its own variable. The client never uses a proxy for an endpoint on this machine.
#[tokio::test]
async fn ec2_is_called_through_the_proxy_from_the_environment() {
    let proxy = Listener::start(None).await;
    let url = format!("http://{}", proxy.address);
    assert_eq!(child("http://ec2.test.invalid", &[("HTTP_PROXY", &url)]).await, "ANSWERED");
    assert_eq!(proxy.asked(), ["POST http://ec2.test.invalid/ HTTP/1.1"]);
    let failed = child("https://ec2.test.invalid", &[("HTTPS_PROXY", &url)]).await;
    assert!(failed.starts_with("FAILED"), "the proxy is no way to a TLS server: {failed}");
    let asked = proxy.asked();
    assert!(asked.iter().all(|line| line == "CONNECT ec2.test.invalid:443 HTTP/1.1") && !asked.is_empty(), "{asked:?}");
    let ec2 = Listener::start(None).await;
    let own = format!("http://{}", ec2.address);
    assert_eq!(child(&own, &[("HTTP_PROXY", &url), ("ALL_PROXY", &url)]).await, "ANSWERED");
    assert_eq!((proxy.asked().len(), ec2.asked().len()), (0, 1));
}

#[tokio::test]
async fn ec2_certificate_is_verified_with_the_ca_bundle() {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![pair.cert.der().clone()], key).unwrap();
    let ec2 = Listener::start(Some(TlsAcceptor::from(Arc::new(config)))).await;
    let endpoint = format!("https://localhost:{}", ec2.address.rsplit(':').next().unwrap());
    let bundle = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bundle.path(), pair.cert.pem()).unwrap();
    let path = bundle.path().to_str().unwrap();
    assert_eq!(child(&endpoint, &[("AWS_CA_BUNDLE", path)]).await, "ANSWERED");
    assert_eq!(ec2.asked(), ["POST / HTTP/1.1"]);
    let failed = child(&endpoint, &[]).await;
    assert!(failed.starts_with("FAILED") && failed.contains("NotSent"), "{failed}");
    assert!(ec2.asked().is_empty(), "the certificate is untrusted");
}

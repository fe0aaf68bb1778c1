//! A fake machine behind a proxy with in-memory pipes, and clients of the proxy.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use csi_proto::csi_proxy::{Group, Version};
use csi_proxy::{ApiGroups, AuditSink, Figures, MemoryPipes, Parts, Proxy, ProxyError};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use winstorage::fake::FakeHost;
use winstorage::service::{Policy, Storage};
use winstorage::types::WinPath;

pub(crate) const KUBELET: &str = r"C:\var\lib\kubelet";
/// A blank volume on disk 3.
pub(crate) const BLANK: &str = r"\\?\Volume{33333333-3333-3333-3333-333333333333}\";

const DESCRIPTION: &str = include_str!("machine.json");

pub(crate) fn machine() -> FakeHost {
    FakeHost::from_json(DESCRIPTION).expect("a description")
}

#[derive(Clone, Default)]
pub(crate) struct Records(Arc<Mutex<Vec<String>>>);

impl AuditSink for Records {
    fn record(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
}

impl Records {
    pub(crate) fn all(&self) -> Vec<serde_json::Value> {
        self.0.lock().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

pub(crate) struct Running {
    pub(crate) pipes: MemoryPipes,
    pub(crate) records: Records,
    pub(crate) stop: CancellationToken,
    pub(crate) metrics: Option<std::net::SocketAddr>,
    served: JoinSet<Result<(), ProxyError>>,
}

pub(crate) fn parts(host: &FakeHost, groups: &str, records: &Records) -> Parts {
    let policy = Policy::new(vec![WinPath::normalise(KUBELET).unwrap()]);
    Parts {
        storage: Arc::new(Storage::new(Arc::new(host.clone()), policy)),
        api_groups: ApiGroups::parse(groups).unwrap(),
        metrics_bind_address: "127.0.0.1:0".parse().ok(),
        figures: Figures::default,
        audit: vec![Box::new(records.clone())],
    }
}

pub(crate) async fn serve(host: FakeHost, groups: &str) -> Running {
    let (pipes, records, stop) = (MemoryPipes::default(), Records::default(), CancellationToken::new());
    let proxy = Proxy::open(&pipes, parts(&host, groups, &records), stop.clone()).await.unwrap();
    let metrics = proxy.metrics_address();
    let mut served = JoinSet::new();
    served.spawn(proxy.run());
    Running { pipes, records, stop, metrics, served }
}

impl Running {
    pub(crate) async fn channel(&self, group: Group, version: Version) -> tonic::transport::Channel {
        csi_proto::csi_proxy::connect(&self.pipes, group, &[version]).await.unwrap().channel
    }

    pub(crate) async fn ended(&mut self) -> Result<(), ProxyError> {
        let ended = tokio::time::timeout(Duration::from_secs(120), self.served.join_next()).await;
        ended.expect("it ends").expect("it ran").expect("no panic")
    }

    pub(crate) async fn page(&self) -> String {
        use tokio::io::AsyncWriteExt;
        let mut stream = tokio::net::TcpStream::connect(self.metrics.unwrap()).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        page
    }
}

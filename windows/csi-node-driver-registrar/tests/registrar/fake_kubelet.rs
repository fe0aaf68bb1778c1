//! The kubelet as plugins see it. It finds sockets in its directory, gets the plugin's info, calls the driver at its
//! endpoint, and reports the result.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi::ProbeRequest;
use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::registration::registration_client::RegistrationClient;
use csi_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};

use crate::{BOUND, eventually};

/// The known sockets by path. The second value distinguishes a new file from an old one, because inode numbers are
/// reused.
#[derive(Debug)]
pub(crate) struct FakeKubelet {
    directory: PathBuf,
    met: BTreeMap<PathBuf, (u64, i64, i64)>,
}

#[derive(Debug)]
pub(crate) struct Met {
    pub(crate) socket: PathBuf,
    client: RegistrationClient<Channel>,
}

impl FakeKubelet {
    pub(crate) fn watching(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), met: BTreeMap::new() }
    }

    /// Forgets all sockets, as a restart would.
    pub(crate) fn forget(&mut self) {
        self.met.clear();
    }

    /// Waits for a new socket. It must not be hidden, and its mode must show that it is a socket.
    pub(crate) async fn meet(&mut self) -> anyhow::Result<Met> {
        let socket = eventually("a new socket", async || self.new_socket()).await?;
        let channel = eventually("a connection", async || dial(&socket).await.ok()).await?;
        Ok(Met { socket, client: RegistrationClient::new(channel) })
    }

    fn new_socket(&mut self) -> Option<PathBuf> {
        let entries = std::fs::read_dir(&self.directory).ok()?;
        for entry in entries.filter_map(Result::ok) {
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
            let file = (metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            if !is_hidden && metadata.file_type().is_socket() && self.met.get(&path) != Some(&file) {
                self.met.insert(path.clone(), file);
                return Some(path);
            }
        }
        None
    }
}

impl Met {
    pub(crate) async fn info(&mut self) -> anyhow::Result<PluginInfo> {
        let info = timeout(BOUND, self.client.get_info(InfoRequest {})).await.context("GetInfo hangs")?;
        Ok(info.context("GetInfo")?.into_inner())
    }

    pub(crate) async fn notify(&mut self, error: Option<&str>) -> anyhow::Result<()> {
        let error_text = error.unwrap_or_default().to_owned();
        let status = RegistrationStatus { plugin_registered: error.is_none(), error: error_text };
        let told = timeout(BOUND, self.client.notify_registration_status(status)).await;
        told.context("NotifyRegistrationStatus hangs")?.context("NotifyRegistrationStatus")?;
        Ok(())
    }

    /// Registers the driver after the checks that the kubelet makes, and calls the driver at its endpoint. Returns the
    /// plugin's info.
    pub(crate) async fn register(&mut self) -> anyhow::Result<PluginInfo> {
        let info = self.info().await?;
        ensure!(info.r#type == "CSIPlugin", "no handler for {:?}", info.r#type);
        let is_known = |version: &String| version.starts_with("1.") || version.starts_with("0.");
        ensure!(info.supported_versions.iter().any(is_known), "{:?}", info.supported_versions);
        let endpoint = if info.endpoint.is_empty() { self.socket.clone() } else { PathBuf::from(&info.endpoint) };
        let driver = dial(&endpoint).await.with_context(|| format!("dial {}", endpoint.display()))?;
        IdentityClient::new(driver).probe(ProbeRequest {}).await.context("Probe")?;
        self.notify(None).await?;
        Ok(info)
    }
}

pub(crate) async fn dial(socket: &Path) -> anyhow::Result<Channel> {
    let socket = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
    });
    let endpoint = Endpoint::from_static("http://localhost").connect_timeout(Duration::from_secs(10));
    Ok(endpoint.connect_with_connector(connector).await?)
}

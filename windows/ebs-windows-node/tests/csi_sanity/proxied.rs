//! csi-proxy with the fake machine and with pipes in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use csi_proxy::{ApiGroups, Figures, Parts, Peer, Proxy, Transport};
use csi_proto::csi_proxy::Dial;
use ebs_windows_node::{OverProxy, Unproven};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use winstorage::fake::FakeHost;
use winstorage::{Policy, Storage};

/// The receiver of a pipe's connections.
type Listener = UnboundedSender<io::Result<(DuplexStream, Peer)>>;

#[derive(Clone, Default)]
pub(crate) struct Pipes(Arc<Mutex<BTreeMap<String, Listener>>>);

impl Transport for Pipes {
    type Stream = DuplexStream;

    fn listen(
        &self,
        pipe: &str,
    ) -> io::Result<impl tokio_stream::Stream<Item = io::Result<(DuplexStream, Peer)>> + Send + Unpin + 'static> {
        let (sender, receiver) = unbounded_channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pipe.to_owned(), sender);
        Ok(UnboundedReceiverStream::new(receiver))
    }
}

impl Dial for Pipes {
    type Stream = DuplexStream;

    async fn dial(&self, pipe: &str) -> io::Result<DuplexStream> {
        let missing = || io::Error::from_raw_os_error(2);
        let pipes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (near, far) = tokio::io::duplex(1 << 16);
        pipes.get(pipe).ok_or_else(missing)?.send(Ok((far, Peer::default()))).map_err(|_| missing())?;
        Ok(near)
    }
}

/// Returns the storage behind a proxy that ends with the tasks.
pub(crate) async fn over_proxy(
    host: &FakeHost,
    policy: Policy,
    tasks: &mut JoinSet<()>,
    unproven: Unproven,
) -> anyhow::Result<OverProxy> {
    let pipes = serve(host, policy, tasks).await?;
    OverProxy::connect(&pipes, Arc::new(host.clone()), unproven).await.context("connect to the proxy")
}

/// Serves a machine over pipes in memory.
pub(crate) async fn serve(host: &FakeHost, policy: Policy, tasks: &mut JoinSet<()>) -> anyhow::Result<Pipes> {
    let pipes = Pipes::default();
    let parts = Parts {
        storage: Arc::new(Storage::new(Arc::new(host.clone()), policy)),
        api_groups: ApiGroups::parse("disk/v1,volume/v1,filesystem/v1")?,
        metrics_bind_address: None,
        figures: Figures::default,
        audit: Vec::new(),
    };
    let proxy = Proxy::open(&pipes, parts, CancellationToken::new()).await?;
    tasks.spawn(async move { drop(proxy.run().await) });
    Ok(pipes)
}

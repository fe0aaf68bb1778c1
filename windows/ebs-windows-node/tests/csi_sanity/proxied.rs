//! csi-proxy with the fake machine and in-memory pipes.

use std::sync::Arc;

use anyhow::Context;
use csi_proxy::{ApiGroups, Figures, MemoryPipes, Parts, Proxy};
use ebs_windows_node::{OverProxy, Unproven};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use winstorage::fake::FakeHost;
use winstorage::{Policy, Storage};

pub(crate) async fn over_proxy(
    host: &FakeHost,
    policy: Policy,
    tasks: &mut JoinSet<()>,
    unproven: Unproven,
) -> anyhow::Result<OverProxy> {
    let pipes = serve(host, policy, tasks).await?;
    OverProxy::connect(&pipes, Arc::new(host.clone()), unproven).await.context("connect to the proxy")
}

pub(crate) async fn serve(host: &FakeHost, policy: Policy, tasks: &mut JoinSet<()>) -> anyhow::Result<MemoryPipes> {
    let pipes = MemoryPipes::default();
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

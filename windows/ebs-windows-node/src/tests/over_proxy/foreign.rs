//! A csi-proxy of another project. It has only the released calls, and formats without proof that the disk is blank.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Context;
use csi_proto::csi_proxy::{Group, connect, pipe_name};
use csi_proxy::{MemoryPipes, Transport};
use ebs_windows_node::{OverProxy, Unproven};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::{Channel, Server};
use tower::Service;
use winstorage::Policy;
use winstorage::fake::FakeHost;

use super::proxied;

/// Forwards calls of the released API versions, and answers all other calls with UNIMPLEMENTED.
async fn hand_on(mut to: Channel, request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
    if !request.uri().path().starts_with("/v1.") {
        return Ok(Status::unimplemented("unknown service").into_http());
    }
    let answered = async {
        std::future::poll_fn(|cx| to.poll_ready(cx)).await?;
        to.call(request).await
    };
    Ok(answered.await.unwrap_or_else(|error| Status::unavailable(error.to_string()).into_http()))
}

pub(crate) async fn over_foreign_proxy(
    host: &FakeHost,
    policy: Policy,
    tasks: &mut JoinSet<()>,
    unproven: Unproven,
) -> anyhow::Result<OverProxy> {
    let careless = Policy { allow_reformat: true, ..policy };
    let behind = proxied::serve(host, careless, tasks).await?;
    let pipes = MemoryPipes::default();
    for group in [Group::Disk, Group::Volume, Group::Filesystem] {
        let version = "v1".parse()?;
        let channel = connect(&behind, group, &[version]).await?.channel;
        let connections = pipes.listen(&pipe_name(group, version))?.map(|accepted| accepted.map(|(stream, _)| stream));
        let service = tower::service_fn(move |request| hand_on(channel.clone(), request));
        let served = Server::builder().serve_with_incoming(service, connections);
        tasks.spawn(async move { drop(served.await) });
    }
    OverProxy::connect(&pipes, Arc::new(host.clone()), unproven).await.context("connect to the proxy")
}

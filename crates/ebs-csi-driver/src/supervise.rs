//! Serves until a signal, then drains running operations for a bounded time.

use std::time::Duration;

use anyhow::Context;
use component_base::signals::Signals;
use ebs_driver::operation::Operations;
use ebs_driver::server;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::compose::{Driver, Listener};
use crate::node;

/// Serves Identity from the start, and all services once `building` has ended. The first signal starts the drain, and a
/// second one ends it at once. The error names the operations that were still running at exit.
pub(crate) async fn run(
    listener: Listener,
    building: impl Future<Output = anyhow::Result<Driver>> + Send + 'static,
    mut signals: Signals,
    limit: Duration,
) -> anyhow::Result<()> {
    let Listener { bound, routes, observer, opening, serves } = listener;
    let endpoint = bound.endpoint().clone();
    let stop = CancellationToken::new();
    let serving = server::serve(bound, routes, observer, stop.clone().cancelled_owned(), limit);
    tokio::pin!(serving);
    // Build in a separate task: building reads certificates, which takes time and must not delay responses.
    let mut builder = JoinSet::new();
    builder.spawn(building);
    let driver = tokio::select! {
        served = &mut serving => return ended_unasked(served),
        Some(built) = builder.join_next() => built.context("start the services")??,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before serving");
            // Dropping the startup gate (`opening`) fails the calls that wait for the services.
            drop(opening);
            stop.cancel();
            return serving.await.context("stop the CSI server");
        }
    };
    let Driver { services, operations, node, mut background, mut fatal } = driver;
    opening.open(services);
    serves.send_replace(true);
    tracing::info!(%endpoint, "serving CSI");
    let signal = tokio::select! {
        served = &mut serving => return ended_unasked(served),
        Some(Ok(error)) = fatal.join_next() => return Err(error),
        signal = signals.next() => signal,
    };
    tracing::info!(signal, ?limit, "stopping: rejecting new requests, waiting for running operations");
    stop.cancel();
    let drained = tokio::select! {
        (served, left) = async { tokio::join!(serving, drain(&operations, limit)) } => {
            served.context("stop the CSI server")?;
            left
        }
        signal = signals.next() => {
            tracing::warn!(signal, "second signal: stopping at once");
            operations.iter().flat_map(Operations::running).map(|key| key.to_string()).collect()
        }
    };
    if let Some(node) = &node {
        node::finish(node).await;
    }
    background.shutdown().await;
    left_behind(drained)
}

fn ended_unasked(served: Result<(), server::ServeError>) -> anyhow::Result<()> {
    served?;
    anyhow::bail!("the CSI server stopped unexpectedly")
}

async fn drain(operations: &[Operations], limit: Duration) -> Vec<String> {
    let mut drains = JoinSet::new();
    for service in operations {
        let service = service.clone();
        drains.spawn(async move { service.drain(limit).await });
    }
    drains.join_all().await.concat().iter().map(ToString::to_string).collect()
}

/// Returns an error that names the operations still running in EC2 and on the node when the process exits.
fn left_behind(operations: Vec<String>) -> anyhow::Result<()> {
    if operations.is_empty() {
        tracing::info!("stopped: no operation is running");
        return Ok(());
    }
    anyhow::bail!(
        "stopped with operations still running: {}; clients that repeat their requests get the results",
        operations.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shutdown_error_names_unfinished_operations() {
        assert!(left_behind(Vec::new()).is_ok());
        let error = left_behind(vec!["CreateVolume pvc-1".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("CreateVolume pvc-1"), "{error}");
    }
}

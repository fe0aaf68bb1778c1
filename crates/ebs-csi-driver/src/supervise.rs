//! Tasks and the drain: serves until told to stop, then lets running work end, for a bounded time.

use std::time::Duration;

use anyhow::Context;
use ebs_driver::operation::Operations;
use ebs_driver::server;
use process_signals::Signals;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::compose::{Driver, Front};
use crate::node;

/// Serves from the first moment, with all services once `building` has ended; until the first signal, then drains. A second
/// signal ends the wait at once.
///
/// # Errors
/// Building or serving failed, or the stop left operations behind: the error names them.
pub(crate) async fn run(
    front: Front,
    building: impl Future<Output = anyhow::Result<Driver>> + Send + 'static,
    mut signals: Signals,
    limit: Duration,
) -> anyhow::Result<()> {
    let Front { bound, routes, observer, opening, starting } = front;
    let endpoint = bound.endpoint().clone();
    let stop = CancellationToken::new();
    let serving = server::serve(bound, routes, observer, stop.clone().cancelled_owned(), limit);
    tokio::pin!(serving);
    // In a task of its own: reading certificates takes a while, and keeps nobody from being answered.
    let mut builder = JoinSet::new();
    builder.spawn(building);
    let driver = tokio::select! {
        served = &mut serving => return ended_unasked(served),
        Some(built) = builder.join_next() => built.context("the driver could not be put together")??,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before it was serving");
            // Calls that wait for the services end now.
            drop(opening);
            stop.cancel();
            return serving.await.context("cannot stop serving");
        }
    };
    let Driver { services, operations, node, mut background, mut fatal } = driver;
    opening.open(services);
    starting.end();
    tracing::info!(%endpoint, "serving CSI");
    let signal = tokio::select! {
        served = &mut serving => return ended_unasked(served),
        Some(Ok(error)) = fatal.join_next() => return Err(error),
        signal = signals.next() => signal,
    };
    tracing::info!(signal, ?limit, "stopping: no new requests, running operations are waited for");
    stop.cancel();
    let drained = tokio::select! {
        (served, left) = async { tokio::join!(serving, drain(&operations, limit)) } => {
            served.context("cannot stop serving")?;
            left
        }
        signal = signals.next() => {
            tracing::warn!(signal, "second signal: ending at once");
            running(&operations)
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
    anyhow::bail!("the CSI server ended without being told to")
}

async fn drain(operations: &[Operations], limit: Duration) -> Vec<String> {
    let mut drains = JoinSet::new();
    for service in operations {
        let service = service.clone();
        drains.spawn(async move { service.drain(limit).await });
    }
    drains.join_all().await.concat().iter().map(ToString::to_string).collect()
}

fn running(operations: &[Operations]) -> Vec<String> {
    operations.iter().flat_map(Operations::running).map(|key| key.to_string()).collect()
}

/// What EC2 and the node are still doing when the process ends must not go unsaid.
fn left_behind(operations: Vec<String>) -> anyhow::Result<()> {
    if operations.is_empty() {
        tracing::info!("stopped: nothing is left running");
        return Ok(());
    }
    anyhow::bail!(
        "stopped with operations still running; repeated requests will find what they did: {}",
        operations.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stop that leaves operations behind is a failure that names them.
    #[test]
    fn a_stop_that_leaves_work_behind_is_an_error_that_names_it() {
        assert!(left_behind(Vec::new()).is_ok());
        let error = left_behind(vec!["CreateVolume pvc-1".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("CreateVolume pvc-1"), "{error}");
    }
}

//! The metadata labeler: writes on each Node how many network interfaces and volumes of others its instance has,
//! for nodes that cannot ask their metadata service.
//!
//! One process leads, by a lease; the others wait. The leader watches Nodes and PersistentVolumes, asks EC2 for many instances at
//! once, and writes only labels that are wrong. A node is looked at when it comes, every hour, and a moment after somebody changed
//! its labels. What fails for one node is in no other's way, and is tried again after ever longer pauses; nothing ends the
//! work but the loss of the lease.

mod count;
mod pass;
mod roster;
mod view;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use ebs_calls::RateLimited;
use ebs_ec2::{Ec2, Observer};
use ebs_types::DriverName;
use kube::Api;
use tokio::task::JoinSet;

use crate::Cluster;
use crate::lease::{Election, LeaseApi, LeaseConfig, LostLease};
use crate::node_metadata::NodeView;
use pass::Passed;
use roster::Roster;
use watched::Watched;

/// When nodes are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Each node again after so long.
    pub refresh: Duration,
    /// Nodes that come within so long share a call.
    pub gather: Duration,
    /// A node whose labels somebody else has changed.
    pub drift: Duration,
    /// A node that failed; each time that it fails again twice as long, up to `refresh`.
    pub first_retry: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            refresh: Duration::from_hours(1),
            gather: Duration::from_secs(2),
            drift: Duration::from_secs(30),
            first_retry: Duration::from_secs(10),
        }
    }
}

/// What a labeler is told.
#[derive(Debug, Clone)]
pub struct LabelerOptions {
    /// The driver's name: labels and the lease derive from it.
    pub driver: DriverName,
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of this host: part of the identity that holds the lease.
    pub host: String,
    /// When nodes are looked at.
    pub times: Times,
    /// At the end, the lease is given back within so long.
    pub release_within: Duration,
}

/// Why a labeler ended without having been asked to.
#[derive(Debug, thiserror::Error)]
pub enum LabelerError {
    /// Another process leads, or may soon.
    #[error("this process does not lead any more")]
    Lost(#[source] LostLease),
    /// A watch ended, which it never should.
    #[error("a watch of the labeler ended")]
    WatchEnded,
}

/// Connections to the API server.
#[derive(Debug, Clone)]
pub struct Connections {
    /// For the work.
    pub work: Cluster,
    /// For the lease alone: its renewals wait for no other call.
    pub lease: Cluster,
}

/// The labeler while it leads.
struct Labeler<E> {
    watched: Arc<Watched>,
    nodes: Api<NodeView>,
    ec2: Arc<RateLimited<E>>,
}

/// Labels nodes whenever this process leads, until `stop` ends; then the lease is given back. `observer` is told of waits
/// for EC2's budget.
///
/// Cancellation: a label that is being written may be written or not; the lease is not given back.
///
/// # Errors
/// [`LabelerError::Lost`] when another process leads now, or may soon.
pub async fn run<E: Ec2>(
    connections: Connections,
    ec2: Arc<E>,
    observer: Arc<dyn Observer>,
    options: LabelerOptions,
    stop: impl Future<Output = ()>,
) -> Result<(), LabelerError> {
    let config = LeaseConfig::new(&format!("metadata-labeler-{}", options.driver), &options.host);
    let store = LeaseApi::new(connections.lease.client(), &options.namespace, &config.name);
    let mut election = Election::new(store, config);
    let labeler = Labeler {
        watched: Arc::new(Watched::new(Roster::new(options.driver, options.times))),
        nodes: Api::all(connections.work.client()),
        ec2: Arc::new(RateLimited::new(ec2, Some(observer))),
    };
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        () = &mut stop => return Ok(()),
        () = election.acquire() => {}
    }
    let ended = tokio::select! {
        () = &mut stop => Ok(()),
        lost = election.hold() => return Err(LabelerError::Lost(lost)),
        ended = labeler.label(&connections.work, options.times) => Err(ended),
    };
    let released = tokio::time::timeout(options.release_within, election.release()).await;
    if !matches!(released, Ok(Ok(()))) {
        tracing::warn!(?released, "the lease could not be given back; the next labeler waits until it has run out");
    }
    ended
}

impl<E: Ec2> Labeler<E> {
    async fn label(&self, cluster: &Cluster, times: Times) -> LabelerError {
        let mut watches = JoinSet::new();
        let (nodes, volumes) = (Arc::clone(&self.watched), Arc::clone(&self.watched));
        let (for_nodes, for_volumes) = (cluster.client(), cluster.client());
        watches.spawn(async move { nodes.watch_nodes(for_nodes).await });
        watches.spawn(async move { volumes.watch_volumes(for_volumes).await });
        tokio::select! {
            _ = watches.join_next() => LabelerError::WatchEnded,
            never = self.passes(times) => match never {},
        }
    }

    async fn passes(&self, times: Times) -> std::convert::Infallible {
        loop {
            self.watched.until_due().await;
            tokio::time::sleep(times.gather).await;
            let Passed { changed, unchanged, without_instance, failed } = self.pass().await;
            let (nodes, volumes) = self.watched.roster().size();
            tracing::info!(changed, unchanged, without_instance, failed, nodes, volumes, "looked at nodes");
        }
    }
}

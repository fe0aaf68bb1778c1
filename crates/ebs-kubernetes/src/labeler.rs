//! The metadata labeler: writes on each Node the number of network interfaces and of volumes that the driver does not
//! manage, for nodes that cannot use their metadata service.
//!
//! One process is the leader, by a lease; the others wait. The leader watches Nodes and PersistentVolumes, describes
//! many instances with one EC2 call, and writes only labels that are wrong. It checks a node when it appears, every
//! hour, and shortly after another client changed its labels. A failure for one node does not affect others, and is
//! retried with growing pauses. Only the loss of the lease ends the work.

mod count;
mod pass;
mod roster;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use ebs_cloud::RateLimited;
use ebs_ec2::{DriverName, Ec2, Observer};
use kube::Api;
use tokio::task::JoinSet;

use crate::Cluster;
use crate::lease::{Election, LeaseConfig, LostLease};
use crate::object::NodeObject;
use pass::Passed;
use roster::Roster;
use watched::Watched;

/// When nodes are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Interval after which each node is checked again.
    pub refresh: Duration,
    /// New nodes within this time share one call.
    pub gather: Duration,
    /// Delay for a node whose labels another client changed.
    pub drift: Duration,
    /// Delay after a failure of a node. It doubles with each failure, up to `refresh`.
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

/// Options of a labeler.
#[derive(Debug, Clone)]
pub struct LabelerOptions {
    /// The driver's name, from which labels and lease derive their names.
    pub driver: DriverName,
    pub namespace: String,
    /// Name of this host, which is part of the identity of the lease holder.
    pub host: String,
    pub times: Times,
    /// Time limit for the release of the lease at the end.
    pub release_within: Duration,
}

/// Why a labeler ended without a request to stop.
#[derive(Debug, thiserror::Error)]
pub enum LabelerError {
    /// Another process is the leader, or may become it soon.
    #[error("this process is no longer the leader")]
    Lost(#[source] LostLease),
    /// A watch ended, which should never happen.
    #[error("a watch of the labeler ended")]
    WatchEnded,
}

/// The connections to the API server.
#[derive(Debug, Clone)]
pub struct Connections {
    /// For the watches and labels.
    pub work: Cluster,
    /// For the lease only, so that its renewals wait for no other call.
    pub lease: Cluster,
}

struct Labeler<E> {
    watched: Arc<Watched>,
    nodes: Api<NodeObject>,
    ec2: Arc<RateLimited<E>>,
}

/// Labels nodes while this process is the leader. When `stop` completes, releases the lease. Reports waits for EC2's
/// rate limit to `observer`.
///
/// Cancellation: a label in flight may be written or not, and the lease is not released.
///
/// # Errors
/// [`LabelerError::Lost`] when another process is the leader, or may become it soon.
pub async fn run<E: Ec2>(
    connections: Connections,
    ec2: Arc<E>,
    observer: Arc<dyn Observer>,
    options: LabelerOptions,
    stop: impl Future<Output = ()>,
) -> Result<(), LabelerError> {
    let config = LeaseConfig::new(&format!("metadata-labeler-{}", options.driver), &options.host);
    let mut election = Election::new(connections.lease.client(), &options.namespace, config);
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
        tracing::warn!(?released, "releasing the lease failed, the next leader waits until it expires");
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
            tracing::info!(changed, unchanged, without_instance, failed, nodes, volumes, "nodes checked");
        }
    }
}

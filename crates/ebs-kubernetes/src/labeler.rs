//! The metadata labeler. It labels each Node with two counts: its network interfaces, and its volumes that the driver
//! does not manage. Nodes that cannot use their metadata service read these labels.
//!
//! A lease makes one process the leader, and the others wait. The leader watches Nodes and PersistentVolumes, describes
//! many instances with one EC2 call, and writes only labels that are wrong. It checks a node when the node appears,
//! every hour, and shortly after another client changed its labels. It works until it loses the lease or is stopped.

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

/// When the labeler checks nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The interval between two checks of a node.
    pub refresh: Duration,
    /// New nodes that appear within this time share one call.
    pub gather: Duration,
    /// The delay before a node is checked after another client has changed the node's labels.
    pub drift: Duration,
    /// The delay after a node's first failure. It doubles with each failure, up to `refresh`.
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

/// The options of a labeler.
#[derive(Debug, Clone)]
pub struct LabelerOptions {
    /// The driver's name, from which the names of the labels and the lease derive.
    pub driver: DriverName,
    pub namespace: String,
    /// The name of this host, which is part of the lease holder's identity.
    pub host: String,
    pub times: Times,
    /// The time limit for releasing the lease at the end.
    pub release_within: Duration,
}

/// Why a labeler ended before `stop` completed.
#[derive(Debug, thiserror::Error)]
pub enum LabelerError {
    #[error("this process is no longer the leader")]
    Lost(#[source] LostLease),
    #[error("a watch of the labeler ended")]
    WatchEnded,
}

/// The connections to the API server that a labeler uses.
#[derive(Debug, Clone)]
pub struct Connections {
    /// The connection for watches and labels.
    pub work: Cluster,
    /// The connection for the lease only, so that a renewal waits for no other call.
    pub lease: Cluster,
}

struct Labeler<E> {
    watched: Arc<Watched>,
    nodes: Api<NodeObject>,
    ec2: Arc<RateLimited<E>>,
}

/// Labels nodes while this process is the leader. Releases the lease when `stop` completes.
///
/// Cancellation: a label in flight may be written or not, and the lease is not released.
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
        tracing::warn!(?released, "failed to release the lease; the next leader must wait until it expires");
    }
    ended
}

impl<E: Ec2> Labeler<E> {
    async fn label(&self, cluster: &Cluster, times: Times) -> LabelerError {
        let mut watches = JoinSet::new();
        let (nodes, volumes) = (Arc::clone(&self.watched), Arc::clone(&self.watched));
        let (for_nodes, for_volumes) = (cluster.client(), cluster.client());
        watches.spawn(async move { nodes.watch(for_nodes, "Nodes", Roster::apply_node).await });
        watches.spawn(async move { volumes.watch(for_volumes, "PersistentVolumes", Roster::apply_volume).await });
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

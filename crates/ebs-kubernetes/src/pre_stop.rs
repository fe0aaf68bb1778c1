//! The hook that runs before the node's plug-in is stopped: on a node that is being drained it waits until the volumes of
//! this driver are detached, since nobody could unmount them afterwards.

mod attachments;

use std::time::Duration;

use ebs_types::DriverName;
use kube::api::Api;
use tokio::time::Instant;

use crate::Cluster;
use crate::failure::{Failure, FailureKind};
use crate::object::{NodeObject, taint_key};
use attachments::Attachments;

/// Taints that say that a node is being emptied: by `kubectl drain`, the cluster autoscaler, Karpenter since 1.0 and before.
const DRAINING: [&str; 4] = [
    "node.kubernetes.io/unschedulable",
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
];

/// How often the Node is asked for before the hook fails. The pod has half a minute in all.
const READS: u32 = 4;
/// Time between two of these.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Waits on one node for the detachment of one driver's volumes.
#[derive(Debug, Clone)]
pub struct PreStop {
    cluster: Cluster,
    node: String,
    driver: DriverName,
}

/// Why the plug-in may be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The node is not being drained: its pods stay, and the next plug-in finds their volumes.
    NotDraining,
    /// No volume of this driver is attached to the node.
    Detached,
}

/// The hook failed.
#[derive(Debug, thiserror::Error)]
pub enum PreStopError {
    /// The Node cannot be read.
    #[error("the Node {node} cannot be read, so it is not known whether it is being drained")]
    Node {
        /// Its name.
        node: String,
        /// Why.
        #[source]
        source: Failure,
    },
}

impl PreStop {
    /// For the Node of this name and the attachments of this driver.
    pub fn new(cluster: Cluster, node: &str, driver: DriverName) -> Self {
        Self { cluster, node: node.to_owned(), driver }
    }

    /// Waits until the plug-in may be stopped, without a limit of its own: the kubelet ends the pod when its time is over.
    /// Failures to read the attachments are logged and tried again.
    ///
    /// # Errors
    /// When the Node cannot be read.
    ///
    /// Cancellation: dropping the future ends the wait.
    pub async fn wait(&self) -> Result<Released, PreStopError> {
        match self.draining().await? {
            Some(reason) => {
                tracing::info!(
                    node = self.node,
                    reason,
                    "the node is being drained: waiting for the detachment of its volumes"
                );
            }
            None => {
                tracing::info!(node = self.node, "the node is not being drained: nothing to wait for");
                return Ok(Released::NotDraining);
            }
        }
        let began = Instant::now();
        Attachments::new(&self.cluster, &self.node, &self.driver).until_none().await;
        tracing::info!(node = self.node, waited = ?began.elapsed(), "no volume of this driver is attached to the node");
        Ok(Released::Detached)
    }

    /// What says that the node is being drained, if anything does.
    async fn draining(&self) -> Result<Option<String>, PreStopError> {
        let nodes: Api<NodeObject> = Api::all(self.cluster.client());
        let mut reads = 1;
        loop {
            let failure = match nodes.get(&self.node).await {
                Ok(node) => {
                    let taints = node.spec.taints.unwrap_or_default();
                    return Ok(taints.iter().map(taint_key).find(|key| DRAINING.contains(key)).map(str::to_owned));
                }
                Err(error) => Failure::of(&error),
            };
            match failure.kind {
                FailureKind::NotFound => return Ok(Some("its Node is gone".to_owned())),
                FailureKind::Unavailable if reads < READS => {
                    tracing::warn!(node = self.node, %failure, "the Node cannot be read now; it is read again");
                    reads += 1;
                    tokio::time::sleep(READ_AGAIN).await;
                }
                _ => return Err(PreStopError::Node { node: self.node.clone(), source: failure }),
            }
        }
    }
}

#[cfg(test)]
mod tests;

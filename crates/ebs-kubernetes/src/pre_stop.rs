//! The node plug-in's pre-stop hook. On a node that is being drained, it waits until this driver's volumes are
//! detached, because no process could unmount them after the plug-in has stopped.

mod attachments;

use std::time::Duration;

use ebs_ec2::DriverName;
use kube::api::Api;
use tokio::time::Instant;

use crate::Cluster;
use crate::failure::{Failure, FailureKind};
use crate::object::{NodeObject, taint_key};

/// The taints that `kubectl drain`, the cluster autoscaler, Karpenter 1 and older Karpenters set on a draining node.
const DRAINING: [&str; 4] = [
    "node.kubernetes.io/unschedulable",
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
];

/// How many times the hook tries to read the Node before it fails. The pod's grace period is half a minute.
const READS: u32 = 4;
/// The pause between two tries.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Waits until a node has no attached volumes of one driver.
#[derive(Debug, Clone)]
pub struct PreStop {
    cluster: Cluster,
    node: String,
    driver: DriverName,
}

/// Why the plug-in may stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The node is not being drained. Its pods stay, and the plug-in's next process finds their volumes.
    NotDraining,
    /// No volume of this driver is attached to the node.
    Detached,
}

/// Why the hook failed.
#[derive(Debug, thiserror::Error)]
pub enum PreStopError {
    #[error("check whether Node {node} is being drained")]
    Node { node: String, source: Failure },
}

impl PreStop {
    /// Creates the hook for the Node of this name and the attachments of this driver.
    pub fn new(cluster: Cluster, node: &str, driver: DriverName) -> Self {
        Self { cluster, node: node.to_owned(), driver }
    }

    /// Waits until the plug-in may stop, without a limit, because the kubelet kills the pod after its grace period.
    ///
    /// Cancellation: dropping the future ends the wait.
    pub async fn wait(&self) -> Result<Released, PreStopError> {
        let node = &self.node;
        let Some(reason) = self.draining().await? else {
            tracing::info!(node, "node is not being drained, not waiting");
            return Ok(Released::NotDraining);
        };
        tracing::info!(node, reason, "node is being drained, waiting until its volumes are detached");
        let began = Instant::now();
        attachments::until_none(&self.cluster, node, &self.driver).await;
        tracing::info!(node, waited = ?began.elapsed(), "all volumes of this driver are detached from the node");
        Ok(Released::Detached)
    }

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
                FailureKind::NotFound => return Ok(Some("the Node was deleted".to_owned())),
                FailureKind::Unavailable if reads < READS => {
                    tracing::warn!(node = self.node, %failure, "failed to read the Node, retrying");
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

//! The start-up taint. New nodes may be created with the taint `<driver>/agent-not-ready`, so that no pod starts before
//! its volumes can be mounted. The driver removes it once the kubelet has registered the driver.
//!
//! [`watch`] follows the Node, and [`remove`] reacts to it concurrently, so a slow attempt does not delay the watch.

mod patch;
mod remove;
mod watch;

use std::time::Duration;

use ebs_ec2::DriverName;
use tokio::time::Instant;

use crate::Cluster;
use crate::object::NodeObject;

/// How long after its start the driver expects a taint, and therefore retries failures quickly.
const EAGER: Duration = Duration::from_secs(10 * 60);

/// Removes the start-up taint from one Node, each time it is set.
#[derive(Debug, Clone)]
pub struct TaintRemoval {
    cluster: Cluster,
    node: String,
    driver: DriverName,
}

impl TaintRemoval {
    /// Creates the removal for the Node with this name, on which this driver runs.
    pub fn new(cluster: Cluster, node: &str, driver: DriverName) -> Self {
        Self { cluster, node: node.to_owned(), driver }
    }

    /// Watches the Node and removes the taint. Never returns. Logs and retries failures.
    ///
    /// Cancellation: dropping the future ends the watch. A patch in flight may be applied or not.
    pub async fn run(self) {
        let seen = tokio::sync::watch::Sender::new(Seen::Unknown);
        let eager_until = Instant::now() + EAGER;
        let watcher = watch::Watcher::new(&self, eager_until);
        let remover = remove::Remover::new(&self, eager_until);
        tokio::join!(watcher.run(&seen), remover.run(&seen));
    }

    fn key(&self) -> String {
        self.driver.startup_taint()
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Seen {
    /// The Node has not been read yet.
    Unknown,
    /// The Node does not exist.
    Absent,
    Node(patch::NodeTaints),
}

impl Seen {
    fn node(object: NodeObject) -> Self {
        Self::Node(patch::NodeTaints {
            uid: object.metadata.uid.unwrap_or_default(),
            taints: object.spec.taints.unwrap_or_default(),
        })
    }

    /// Returns the removal that the Node needs, if any.
    fn removal(&self, key: &str) -> Option<patch::Removal> {
        match self {
            Self::Unknown | Self::Absent => None,
            Self::Node(node) => node.removal(key),
        }
    }
}

#[cfg(test)]
mod tests;

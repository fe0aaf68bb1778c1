//! The start-up taint: who makes nodes may set `<driver>/agent-not-ready` on new ones, so that no pod comes before its
//! volumes can. It is taken away when the kubelet has registered the driver.
//!
//! [`watch`] says what the Node is, [`remove`] acts on it, [`patch`] decides how. The two run beside each other: however
//! long an attempt takes, the watch goes on.

mod patch;
mod remove;
mod watch;

use std::time::Duration;

use ebs_types::DriverName;
use tokio::time::Instant;

use crate::Cluster;
use crate::object::NodeObject;

/// For so long after the start a taint is expected to be there, or to come: what fails is tried again soon. Afterwards it
/// is tried again all the same, but seldom.
const EAGER: Duration = Duration::from_secs(10 * 60);

/// Takes the start-up taint from one Node, as often as somebody sets it.
#[derive(Debug, Clone)]
pub struct TaintRemoval {
    cluster: Cluster,
    node: String,
    driver: DriverName,
}

impl TaintRemoval {
    /// For the Node of this name, on which this driver runs.
    pub fn new(cluster: Cluster, node: &str, driver: DriverName) -> Self {
        Self { cluster, node: node.to_owned(), driver }
    }

    /// Watches the Node and takes the taint away, for ever. What fails is logged and tried again.
    ///
    /// Cancellation: dropping the future ends it; a patch that is under way is carried out or not.
    pub async fn run(self) {
        let seen = tokio::sync::watch::Sender::new(Seen::Unknown);
        let eager_until = Instant::now() + EAGER;
        let watcher = watch::Watcher::new(&self, eager_until);
        let remover = remove::Remover::new(&self, eager_until);
        tokio::join!(watcher.run(&seen), remover.run(&seen));
    }

    /// The taint's key.
    fn key(&self) -> String {
        self.driver.startup_taint()
    }
}

/// What is known of the Node.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    /// Nobody has looked yet.
    Unknown,
    /// There is none.
    Absent,
    /// As it was read.
    Node(patch::NodeTaints),
}

impl Seen {
    fn node(object: NodeObject) -> Self {
        Self::Node(patch::NodeTaints {
            uid: object.metadata.uid.unwrap_or_default(),
            taints: object.spec.taints.unwrap_or_default(),
        })
    }

    /// What is to be taken from it, if anything.
    fn removal(&self, key: &str) -> Option<patch::Removal> {
        match self {
            Self::Unknown | Self::Absent => None,
            Self::Node(node) => node.removal(key),
        }
    }
}

#[cfg(test)]
mod tests;

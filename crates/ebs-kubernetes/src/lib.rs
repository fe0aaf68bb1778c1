//! How the driver uses Kubernetes: start-up taints, the pre-stop hook, node labels, and metadata from the Node.
//!
//! The CSI services need none of these.

mod client;
mod failure;
#[cfg(test)]
#[path = "tests/fake.rs"]
mod fake;
mod labeler;
pub mod lease;
mod node_metadata;
mod object;
mod pre_stop;
mod taint;

pub use client::{Cluster, ClusterOptions, ConnectError, InCluster};
pub use failure::{Failure, FailureKind};
pub use labeler::{Connections, LabelerError, LabelerOptions, Times, run as label_nodes};
pub use node_metadata::{NodeMetadataError, NodeSource, ProviderIdError, node_of};
pub use pre_stop::{PreStop, PreStopError, Released};
pub use taint::TaintRemoval;

//! How the driver uses Kubernetes: start-up taints, the pre-stop hook, node labels, and metadata from the Node.
//!
//! [`Cluster`] is the connection. [`TaintRemoval`] watches the driver's own Node and removes the start-up taint once
//! the kubelet has registered the driver. [`PreStop`] keeps the plug-in of a draining node running until the node's
//! volumes are detached. [`NodeSource`] reads the metadata of this machine from its Node. [`label_nodes`] writes the
//! labels that this source reads, while this process holds a [`lease`].
//!
//! The CSI services need none of these.

mod client;
mod failure;
#[cfg(test)]
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

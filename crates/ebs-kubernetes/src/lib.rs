//! What the driver does with Kubernetes: start-up taints, the pre-stop hook, node labels, and metadata of the Node.
//!
//! [`Cluster`] is the connection. [`TaintRemoval`] watches the own Node and takes the start-up taint away when the kubelet
//! has registered the driver; [`PreStop`] holds a draining node's plug-in until its volumes are detached. [`NodeSource`] reads this
//! machine's Node; [`label_nodes`] writes on Nodes what such a source needs, while this process leads by a [`lease`].
//!
//! None of it is needed to serve CSI.
#![warn(missing_docs)]

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

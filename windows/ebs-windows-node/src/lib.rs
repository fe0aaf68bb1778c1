//! The CSI node service for Windows. It stages, publishes, expands and measures volumes through [`winstorage`].
//!
//! It has the same layers as the node service for Linux. `request` turns a request into a typed plan. Mutations run as
//! operations that outlive the request, with the same keys. The steps differ: disks are identified by their serial
//! numbers, file systems are NTFS, a staged volume is a mount point, and a published volume is a link to it. Each call
//! can continue what another process has left incomplete.
//!
//! This crate compiles on every system. The caller selects the machine of [`winstorage::Storage`], which may also be
//! behind csi-proxy ([`OverProxy`]).

mod disks;
mod error;
mod growth;
mod over_proxy;
mod proxy_error;
mod publish;
mod request;
mod rpcs;
mod stage;
mod stats;
mod storage;
mod unstage;

use std::sync::Arc;

use ebs_driver::csi_node::CsiNode;
use ebs_driver::operation::Operations;
use ebs_ec2::DriverName;
use ebs_metadata::{LimitFlags, Machine};
use tokio::sync::Semaphore;

pub use error::{Cause, NodeError, NodeRefusal};
pub use over_proxy::{OverProxy, Unproven};
pub use proxy_error::ProxyError;
pub use request::RequestError;
pub use storage::{NodeStorage, Role, Seen};

use disks::Disks;

/// Maximum number of concurrent operations that block a thread. Each thread that has used WMI keeps its own
/// connections.
const PLACES: usize = 16;

#[derive(Debug, Clone)]
pub struct NodeOptions {
    pub driver: DriverName,
    /// The properties of this machine. They are queried for each request that needs them.
    pub machine: Arc<Machine>,
    /// The values of `--volume-attach-limit` and `--reserved-volume-attachments`.
    pub limits: LimitFlags,
}

pub struct WindowsNode {
    options: NodeOptions,
    disks: Arc<Disks>,
    operations: Operations,
    places: Semaphore,
}

impl WindowsNode {
    pub fn new(options: NodeOptions, storage: Arc<dyn NodeStorage>, operations: Operations) -> CsiNode<Self> {
        let xen = ebs_ec2::is_xen(&options.machine.metadata().instance_type);
        let disks = Arc::new(Disks { storage, xen });
        CsiNode::wrap(Self { options, disks, operations, places: Semaphore::new(PLACES) })
    }

    /// Runs blocking work to its end, even if the future is dropped. A panic in the work propagates.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Disks) -> T + Send + 'static) -> T {
        // `acquire` cannot fail, because the semaphore is never closed.
        let _place = self.places.acquire().await;
        let (disks, span) = (Arc::clone(&self.disks), tracing::Span::current());
        let done = tokio::task::spawn_blocking(move || span.in_scope(|| work(&disks))).await;
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

// The files that unit tests share with `tests/` refer to the crate by this name.
#[cfg(test)]
extern crate self as ebs_windows_node;

#[cfg(test)]
mod tests;

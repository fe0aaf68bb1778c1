//! The node service: stages, publishes, grows and inspects volumes on this machine. A previous call may have ended in
//! the middle of any step, so every call must accept a partial result.

mod decide;
mod error;
mod expand;
mod growth;
mod health;
mod in_use;
mod owner;
mod place_error;
mod publish;
mod repair;
mod request;
mod rpcs;
mod stage;
mod stats;
mod unmount;
mod wanted;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::{DriverName, VolumeId};
use ebs_metadata::{LimitFlags, Machine};
use ebs_mounter::Mounter;

use crate::csi_node::CsiNode;
use crate::operation::Operations;

pub use error::{Cause, NodeError, NodeRefusal};
use growth::Backlog;
pub use place_error::PlaceError;
pub use request::{Handle, RequestError};

#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The driver's name, from which topology keys and publish-context keys derive.
    pub driver: DriverName,
    /// This machine. Each NodeGetInfo refreshes its metadata.
    pub machine: Arc<Machine>,
    /// `--volume-attach-limit` and `--reserved-volume-attachments`.
    pub limits: LimitFlags,
    /// `--legacy-xfs`: creates xfs file systems without the features that kernels before 5.10 lack.
    pub legacy_xfs: bool,
}

/// The CSI node service. Clones share all state.
pub type NodeService = CsiNode<LinuxNode>;

/// The node service of a Linux instance.
pub struct LinuxNode {
    options: NodeOptions,
    mounter: Mounter,
    operations: Operations,
    /// The status and reason of each unhealthy volume at the last check of all volumes.
    unhealthy: Mutex<BTreeMap<VolumeId, (&'static str, &'static str)>>,
    backlog: Backlog,
}

impl LinuxNode {
    fn unhealthy(&self) -> MutexGuard<'_, BTreeMap<VolumeId, (&'static str, &'static str)>> {
        self.unhealthy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeService {
    /// Creates the service for this machine's disks.
    pub fn new(options: NodeOptions, mounter: Mounter, operations: Operations) -> Self {
        let (unhealthy, backlog) = (Mutex::default(), Backlog::default());
        Self::wrap(LinuxNode { options, mounter, operations, unhealthy, backlog })
    }

    /// Waits until the register of volumes is written. Call this after the last operation. Returns false after `bound`.
    pub async fn register_written(&self, bound: Duration) -> bool {
        self.implementation().mounter.register_written(bound).await
    }
}

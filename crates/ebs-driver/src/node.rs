//! The node service: stage, publish, grow and look at volumes on this machine.
//!
//! A request becomes a typed plan ([`request`]); mutations run as operations that outlive the request
//! (`decisions.md` D-10). What is mounted already is judged by pure functions ([`decide`]); disks are `ebs-mounter`'s.
//! Every step of a flow can be found half done by the next call.

use std::sync::Arc;

use ebs_metadata::{Imds, LimitFlags, NodeMetadata};
use ebs_mounter::Mounter;
use ebs_types::DriverName;

use crate::operation::Operations;

/// What the node service is told once, at start.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The driver's name: topology keys and publish-context keys derive from it.
    pub driver: DriverName,
    /// What this machine is, as read at start.
    pub metadata: NodeMetadata,
    /// `--volume-attach-limit` and `--reserved-volume-attachments`.
    pub limits: LimitFlags,
    /// `--legacy-xfs`: new xfs file systems without the features that kernels before 5.10 lack.
    pub legacy_xfs: bool,
}

/// The CSI node service. Clones share everything.
#[derive(Clone)]
pub struct NodeService {
    inner: Arc<Inner>,
}

#[expect(dead_code, reason = "the RPCs use them, next")]
struct Inner {
    options: NodeOptions,
    /// For the count of network interfaces; `None` when metadata did not come from IMDS.
    imds: Option<Imds>,
    mounter: Mounter,
    operations: Operations,
}

impl NodeService {
    /// A service over this machine's disks. `imds`, where given, is asked again for the number of network interfaces
    /// each time the orchestrator asks for the attachment limit.
    pub fn new(options: NodeOptions, imds: Option<Imds>, mounter: Mounter, operations: Operations) -> Self {
        Self { inner: Arc::new(Inner { options, imds, mounter, operations }) }
    }
}

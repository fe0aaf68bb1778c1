//! HyperPod nodes: instances of another account, to which SageMaker attaches volumes for us.

use std::time::SystemTime;

use crate::{DeviceName, HyperPodNode, Result, VolumeId};

/// A device that SageMaker has attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNodeDevice {
    /// The device name that SageMaker chose.
    pub device: DeviceName,
    /// The time of this reply by SageMaker's clock, in whole seconds. `None` if the reply had no `Date`.
    pub said_at: Option<SystemTime>,
}

/// Calls SageMaker's actions on volumes of cluster nodes. If SageMaker's error contains an EC2 error, the EC2 error
/// determines the class. The first call gets the account from STS, once per process.
pub trait ClusterNodes {
    /// Calls AttachClusterNodeVolume. Returns the device name that SageMaker chose. EC2 then lists an attachment whose
    /// [`crate::Attachment::cluster_node`] is the node's instance, `attaching` at first.
    fn attach_cluster_node_volume(
        &self,
        node: &HyperPodNode,
        volume: &VolumeId,
    ) -> impl Future<Output = Result<ClusterNodeDevice>> + Send;

    /// Calls DetachClusterNodeVolume. The attachment is `detaching` at first.
    fn detach_cluster_node_volume(
        &self,
        node: &HyperPodNode,
        volume: &VolumeId,
    ) -> impl Future<Output = Result<()>> + Send;
}

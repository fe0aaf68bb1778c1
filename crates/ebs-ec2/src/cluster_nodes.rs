//! HyperPod nodes: instances of another account, which SageMaker attaches volumes to on our behalf.

use std::time::SystemTime;

use ebs_types::{DeviceName, HyperPodNode, VolumeId};

use crate::Result;

/// What SageMaker has attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNodeDevice {
    /// The device name that it chose.
    pub device: DeviceName,
    /// Its own time of day when it said so, in whole seconds; `None` when the reply had no `Date`.
    pub said_at: Option<SystemTime>,
}

/// What SageMaker does with volumes and cluster nodes. Its errors carry EC2's meaning where it
/// reports one. The first call asks STS for the account, once for the process.
pub trait ClusterNodes {
    /// AttachClusterNodeVolume; answers with the device name that SageMaker chose. EC2 then lists an attachment
    /// whose [`crate::Attachment::cluster_node`] is the node's instance, `attaching` at first.
    fn attach_cluster_node_volume(
        &self,
        node: &HyperPodNode,
        volume: &VolumeId,
    ) -> impl Future<Output = Result<ClusterNodeDevice>> + Send;

    /// DetachClusterNodeVolume; the attachment is `detaching` at first.
    fn detach_cluster_node_volume(
        &self,
        node: &HyperPodNode,
        volume: &VolumeId,
    ) -> impl Future<Output = Result<()>> + Send;
}

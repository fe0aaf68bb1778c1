//! HyperPod nodes: instances of another account, which SageMaker attaches volumes to on our behalf.

use ebs_types::{DeviceName, HyperPodNode, VolumeId};

use crate::Result;

/// What SageMaker does with volumes and cluster nodes (`ebs-cloud.md` 5.5). Its errors carry EC2's meaning where it
/// reports one. The first call asks STS for the account, once for the process.
pub trait ClusterNodes {
    /// AttachClusterNodeVolume; answers with the device name that SageMaker chose. EC2 then lists an attachment
    /// whose [`crate::Attachment::cluster_node`] is the node's instance, `attaching` at first.
    fn attach_cluster_node_volume(
        &self,
        node: &HyperPodNode,
        volume: &VolumeId,
    ) -> impl Future<Output = Result<DeviceName>> + Send;

    /// DetachClusterNodeVolume; the attachment is `detaching` at first.
    fn detach_cluster_node_volume(
        &self,
        node: &HyperPodNode,
        volume: &VolumeId,
    ) -> impl Future<Output = Result<()>> + Send;
}

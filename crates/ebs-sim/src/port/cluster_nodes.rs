//! HyperPod nodes through the port.

use ebs_ec2::{ClusterNodeDevice, ClusterNodes, Result};
use ebs_types::{DeviceName, HyperPodNode, VolumeId};

use crate::api;

use super::{SimEc2, call};

/// The account that owns the clusters of tests.
const ACCOUNT: &str = "123456789012";

impl ClusterNodes for SimEc2 {
    async fn attach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<ClusterNodeDevice> {
        let attachment = call!(self, AttachClusterNodeVolume, self.call_about(node, volume))?;
        Ok(ClusterNodeDevice { device: DeviceName::new(attachment.device), said_at: Some(self.date()) })
    }

    async fn detach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<()> {
        call!(self, DetachClusterNodeVolume, self.call_about(node, volume)).map(drop)
    }
}

impl SimEc2 {
    fn call_about(&self, node: &HyperPodNode, volume: &VolumeId) -> api::ClusterNodeVolume {
        let region = &self.engine.config().region;
        api::ClusterNodeVolume {
            cluster_arn: format!("arn:aws:sagemaker:{region}:{ACCOUNT}:cluster/{}", node.cluster()),
            node_id: node.instance().to_string(),
            volume_id: volume.to_string(),
        }
    }
}

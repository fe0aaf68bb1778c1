//! The port's HyperPod nodes.

use ebs_ec2::{Action, ClusterNodes, Ec2Error, ErrorClass, Result};
use ebs_types::{DeviceName, HyperPodNode, VolumeId};

use crate::AwsEc2;

impl ClusterNodes for AwsEc2 {
    async fn attach_cluster_node_volume(&self, node: &HyperPodNode, _volume: &VolumeId) -> Result<DeviceName> {
        Err(refused(Action::AttachClusterNodeVolume, node))
    }

    async fn detach_cluster_node_volume(&self, node: &HyperPodNode, _volume: &VolumeId) -> Result<()> {
        Err(refused(Action::DetachClusterNodeVolume, node))
    }
}

fn refused(action: Action, node: &HyperPodNode) -> Ec2Error {
    Ec2Error::new(action, ErrorClass::Unsupported, format!("{node} is a HyperPod node: not supported yet"))
}

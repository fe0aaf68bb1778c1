//! The node service of a machine that is not an EC2 instance. The node is registered, but refuses all volumes.
//!
//! If the driver exited or NodeGetInfo failed, Kubernetes would restart the driver or its registrar forever. The node
//! is therefore registered with an ID that names no instance, and without a topology. Each volume requires a topology,
//! so the scheduler places no pod with such a volume on this node.

use csi_proto::csi::NodeGetInfoResponse;
use tonic::Status;

use crate::csi_node::{CsiNode, NodeCapability, NodeRpcs};
use crate::rpc::Rpc;
use crate::status::{Meaning, status};

/// The maximum length of the machine's name within the node ID. The kubelet accepts IDs of up to 256 bytes.
const LONGEST_NAME: usize = 200;

/// The node service of a machine that is not an EC2 instance.
#[derive(Debug)]
pub struct NotEc2 {
    name: String,
    what: String,
}

impl NotEc2 {
    /// Creates the service for the machine `name`. `what` is the metadata source's description of the machine.
    pub fn service(name: &str, what: &str) -> CsiNode<Self> {
        CsiNode::wrap(Self { name: name.chars().take(LONGEST_NAME).collect(), what: what.to_owned() })
    }

    /// Returns an ID that is not an instance ID, so that the controller returns NotFound for it.
    fn id(&self) -> String {
        format!("no-ec2-instance:{}", self.name)
    }
}

#[tonic::async_trait]
impl NodeRpcs for NotEc2 {
    const CAPABILITIES: &'static [NodeCapability] = &[];

    async fn info(&self) -> NodeGetInfoResponse {
        // The lowest possible limit: Kubernetes reads 0 as "no limit".
        NodeGetInfoResponse { node_id: self.id(), max_volumes_per_node: 1, accessible_topology: None }
    }

    fn unsupported(&self, _rpc: Rpc) -> Status {
        let Self { name, what } = self;
        status(
            Meaning::FailedPrecondition,
            format!(
                "node {name} is not an EC2 instance ({what}), so EBS volumes cannot be attached; run the pod on an EC2 instance"
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::node_server::Node as _;
    use csi_proto::csi::{NodeGetInfoRequest, NodeStageVolumeRequest};
    use ebs_ec2::NodeId;
    use tonic::Request;

    use super::*;

    /// The response has no topology, and its ID belongs to no instance. Errors describe the machine.
    #[tokio::test]
    async fn non_ec2_node_registers_without_topology_and_refuses_volumes() {
        let node = NotEc2::service("hybrid-1", "its providerID is eks-hybrid:///us-west-2/c/mi-0abc");
        let info = node.node_get_info(Request::new(NodeGetInfoRequest {})).await.unwrap().into_inner();
        assert_eq!(info.accessible_topology, None);
        assert_eq!(info.max_volumes_per_node, 1);
        assert!(info.node_id.contains("hybrid-1") && NodeId::parse(&info.node_id).is_err(), "{}", info.node_id);
        let refused = node.node_stage_volume(Request::new(NodeStageVolumeRequest::default())).await.unwrap_err();
        assert!(refused.message().contains("hybrid-1") && refused.message().contains("mi-0abc"), "{refused:?}");
        let long = NotEc2 { name: "n".repeat(LONGEST_NAME), what: String::new() }.id();
        assert!(long.len() <= 256, "{long}");
    }
}

//! The node service of a machine that is not an EC2 instance. It is registered, and refuses all volumes.
//!
//! No EBS volume can be attached to such a machine. If the driver exited, Kubernetes would restart it forever. If
//! NodeGetInfo failed, the same would happen to the registrar, which exits when the kubelet reports a failed
//! registration. So the node is registered, with an ID that names no instance, and without a topology. Each volume
//! requires a topology, which this node never has, so by CSI no pod with such a volume is scheduled here.

use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use tonic::{Request, Response, Status};

use crate::rpc::Rpc;
use crate::status::{Meaning, status, unimplemented_rpc};

/// The maximum length of the machine's name in its ID. The kubelet accepts IDs of up to 256 bytes.
const LONGEST_NAME: usize = 200;

/// The node service of a machine that is not an EC2 instance. Clones share everything.
#[derive(Debug, Clone)]
pub struct IdleNode {
    name: String,
    what: String,
}

impl IdleNode {
    /// Creates the service for the machine `name`. `what` describes the machine in the words of the metadata source.
    pub fn new(name: &str, what: &str) -> Self {
        Self { name: name.chars().take(LONGEST_NAME).collect(), what: what.to_owned() }
    }

    /// Returns an ID that names no instance, so that the controller returns NotFound for it.
    fn id(&self) -> String {
        format!("no-ec2-instance:{}", self.name)
    }

    fn refusal(&self) -> Status {
        let Self { name, what } = self;
        status(
            Meaning::FailedPrecondition,
            format!(
                "node {name} is not an EC2 instance ({what}), so EBS volumes cannot be attached; run the pod on an EC2 instance"
            ),
        )
    }
}

#[tonic::async_trait]
impl Node for IdleNode {
    async fn node_stage_volume(
        &self,
        _request: Request<csi::NodeStageVolumeRequest>,
    ) -> Result<Response<csi::NodeStageVolumeResponse>, Status> {
        Err(self.refusal())
    }

    async fn node_unstage_volume(
        &self,
        _request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Result<Response<csi::NodeUnstageVolumeResponse>, Status> {
        Err(self.refusal())
    }

    async fn node_publish_volume(
        &self,
        _request: Request<csi::NodePublishVolumeRequest>,
    ) -> Result<Response<csi::NodePublishVolumeResponse>, Status> {
        Err(self.refusal())
    }

    async fn node_unpublish_volume(
        &self,
        _request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<csi::NodeUnpublishVolumeResponse>, Status> {
        Err(self.refusal())
    }

    async fn node_expand_volume(
        &self,
        _request: Request<csi::NodeExpandVolumeRequest>,
    ) -> Result<Response<csi::NodeExpandVolumeResponse>, Status> {
        Err(self.refusal())
    }

    async fn node_get_volume_stats(
        &self,
        _request: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<csi::NodeGetVolumeStatsResponse>, Status> {
        Err(self.refusal())
    }

    async fn node_get_volume_health(
        &self,
        _request: Request<csi::NodeGetVolumeHealthRequest>,
    ) -> Result<Response<csi::NodeGetVolumeHealthResponse>, Status> {
        Err(self.refusal())
    }

    async fn node_get_storage_health(
        &self,
        _request: Request<csi::NodeGetStorageHealthRequest>,
    ) -> Result<Response<csi::NodeGetStorageHealthResponse>, Status> {
        Err(unimplemented_rpc(Rpc::NodeGetStorageHealth))
    }

    async fn node_get_capabilities(
        &self,
        _request: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<csi::NodeGetCapabilitiesResponse>, Status> {
        Ok(Response::new(csi::NodeGetCapabilitiesResponse::default()))
    }

    async fn node_get_info(
        &self,
        _request: Request<csi::NodeGetInfoRequest>,
    ) -> Result<Response<csi::NodeGetInfoResponse>, Status> {
        Ok(Response::new(csi::NodeGetInfoResponse {
            node_id: self.id(),
            // The lowest possible limit: Kubernetes reads 0 as "no limit".
            max_volumes_per_node: 1,
            accessible_topology: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use ebs_types::NodeId;

    use super::*;

    /// It has no topology, its ID belongs to no instance, and the errors describe the machine.
    #[tokio::test]
    async fn non_ec2_machine_registers_without_topology_and_refuses_pods() {
        let node = IdleNode::new("hybrid-1", "its providerID is eks-hybrid:///us-west-2/c/mi-0abc");
        let info = node.node_get_info(Request::new(csi::NodeGetInfoRequest {})).await.unwrap().into_inner();
        assert_eq!(info.accessible_topology, None);
        assert_eq!(info.max_volumes_per_node, 1);
        assert!(info.node_id.contains("hybrid-1") && NodeId::parse(&info.node_id).is_err(), "{}", info.node_id);
        let refused = node.node_stage_volume(Request::new(csi::NodeStageVolumeRequest::default())).await.unwrap_err();
        assert!(refused.message().contains("hybrid-1") && refused.message().contains("mi-0abc"), "{refused:?}");
        let long = IdleNode::new(&"n".repeat(1000), "").id();
        assert!(long.len() <= 256, "{long}");
    }
}

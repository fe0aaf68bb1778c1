//! The node service of a machine that is no EC2 instance: it is there, says so, and does nothing.
//!
//! No volume can ever be attached to such a machine. A driver that ended because of it would be started again for ever, and one
//! whose NodeGetInfo fails makes the registrar beside it do the same: it ends when the kubelet reports a registration that
//! failed. So the node is registered, with an id that names no instance, and without a topology: volumes say where they can be
//! reached, and that is never here, so by CSI nothing that uses one is scheduled here.

use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use tonic::{Request, Response, Status};

use crate::rpc::Rpc;
use crate::status::{Meaning, status, unimplemented_rpc};

/// Longest part of the machine's name in its id: the kubelet takes ids of up to 256 bytes.
const LONGEST_NAME: usize = 200;

/// The node service of a machine that is no EC2 instance. Clones share everything.
#[derive(Debug, Clone)]
pub struct IdleNode {
    name: String,
    what: String,
}

impl IdleNode {
    /// Of the machine with that name, which is `what` instead of an instance, in the words of who knows.
    pub fn new(name: &str, what: &str) -> Self {
        Self { name: name.chars().take(LONGEST_NAME).collect(), what: what.to_owned() }
    }

    /// Names no instance, so that the controller answers NotFound for it.
    fn id(&self) -> String {
        format!("no-ec2-instance:{}", self.name)
    }

    fn refusal(&self) -> Status {
        let Self { name, what } = self;
        status(
            Meaning::FailedPrecondition,
            format!(
                "node {name} is no EC2 instance ({what}), so no EBS volume can be attached to it: run the pod on a node that is one"
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
            // The least that can be said: Kubernetes reads 0 as "no limit".
            max_volumes_per_node: 1,
            accessible_topology: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use ebs_types::NodeId;

    use super::*;

    /// A machine that is no EC2 instance is registered without a topology, with an id that no instance has, and refuses volumes
    /// naming what it is.
    #[tokio::test]
    async fn a_machine_that_is_no_instance_is_registered_nowhere_and_refuses_volumes() {
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

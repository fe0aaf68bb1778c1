//! The node service of the test's driver. The kubelet makes one call of it when it registers a driver.

use csi_proto::csi::node_server::Node;
use csi_proto::csi::*;
use tonic::{Request, Response, Status};

/// The node id in its response.
pub(crate) const NODE_ID: &str = "i-0123456789abcdef0";

pub(crate) struct FakeNode;

macro_rules! not_asked {
    ($($method:ident: $request:ty => $response:ty;)*) => {
        #[tonic::async_trait]
        impl Node for FakeNode {
            async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Result<Response<NodeGetInfoResponse>, Status> {
                Ok(Response::new(NodeGetInfoResponse { node_id: NODE_ID.to_owned(), ..NodeGetInfoResponse::default() }))
            }

            $(async fn $method(&self, _: Request<$request>) -> Result<Response<$response>, Status> {
                Err(Status::unimplemented("nobody asks while a driver is registered"))
            })*
        }
    };
}

not_asked! {
    node_stage_volume: NodeStageVolumeRequest => NodeStageVolumeResponse;
    node_unstage_volume: NodeUnstageVolumeRequest => NodeUnstageVolumeResponse;
    node_publish_volume: NodePublishVolumeRequest => NodePublishVolumeResponse;
    node_unpublish_volume: NodeUnpublishVolumeRequest => NodeUnpublishVolumeResponse;
    node_get_volume_stats: NodeGetVolumeStatsRequest => NodeGetVolumeStatsResponse;
    node_get_volume_health: NodeGetVolumeHealthRequest => NodeGetVolumeHealthResponse;
    node_get_storage_health: NodeGetStorageHealthRequest => NodeGetStorageHealthResponse;
    node_expand_volume: NodeExpandVolumeRequest => NodeExpandVolumeResponse;
    node_get_capabilities: NodeGetCapabilitiesRequest => NodeGetCapabilitiesResponse;
}

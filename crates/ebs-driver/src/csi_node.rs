//! Adapts the CSI Node service to the node services of Linux, of Windows and of other machines.

use std::sync::Arc;

use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use csi_proto::csi::node_service_capability::{self, Type};
use tonic::{Request, Response, Status};

use crate::request_log::receive;
use crate::rpc::Rpc;
use crate::status::unimplemented_rpc;

pub use csi_proto::csi::node_service_capability::rpc::Type as NodeCapability;

/// The CSI Node service of the implementation `N`. Clones share the implementation.
#[derive(Debug)]
pub struct CsiNode<N>(Arc<N>);

impl<N> CsiNode<N> {
    pub fn wrap(implementation: N) -> Self {
        Self(Arc::new(implementation))
    }

    pub fn implementation(&self) -> &Arc<N> {
        &self.0
    }
}

impl<N> Clone for CsiNode<N> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

macro_rules! node_rpcs {
    ($($method:ident = $rpc:ident => $name:ident($request:ident) -> $response:ident;)+) => {
        /// The RPCs of the Node service on one kind of machine. By default, each RPC fails as unsupported.
        #[tonic::async_trait]
        pub trait NodeRpcs: Sized + Send + Sync + 'static {
            const CAPABILITIES: &'static [NodeCapability];

            async fn info(&self) -> csi::NodeGetInfoResponse;

            fn unsupported(&self, rpc: Rpc) -> Status {
                unimplemented_rpc(rpc)
            }

            $(async fn $name(node: &Arc<Self>, _request: csi::$request) -> Result<csi::$response, Status> {
                Err(node.unsupported(Rpc::$rpc))
            })+
        }

        #[tonic::async_trait]
        impl<N: NodeRpcs> Node for CsiNode<N> {
            $(async fn $method(&self, request: Request<csi::$request>) -> Result<Response<csi::$response>, Status> {
                N::$name(&self.0, receive(request)).await.map(Response::new)
            })+

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
                let capability = |rpc: &NodeCapability| csi::NodeServiceCapability {
                    r#type: Some(Type::Rpc(node_service_capability::Rpc { r#type: (*rpc).into() })),
                };
                let capabilities = N::CAPABILITIES.iter().map(capability).collect();
                Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities }))
            }

            async fn node_get_info(
                &self,
                request: Request<csi::NodeGetInfoRequest>,
            ) -> Result<Response<csi::NodeGetInfoResponse>, Status> {
                receive(request);
                Ok(Response::new(self.0.info().await))
            }
        }
    };
}

node_rpcs! {
    node_stage_volume = NodeStageVolume => stage(NodeStageVolumeRequest) -> NodeStageVolumeResponse;
    node_unstage_volume = NodeUnstageVolume => unstage(NodeUnstageVolumeRequest) -> NodeUnstageVolumeResponse;
    node_publish_volume = NodePublishVolume => publish(NodePublishVolumeRequest) -> NodePublishVolumeResponse;
    node_unpublish_volume = NodeUnpublishVolume => unpublish(NodeUnpublishVolumeRequest) -> NodeUnpublishVolumeResponse;
    node_expand_volume = NodeExpandVolume => expand(NodeExpandVolumeRequest) -> NodeExpandVolumeResponse;
    node_get_volume_stats = NodeGetVolumeStats => stats(NodeGetVolumeStatsRequest) -> NodeGetVolumeStatsResponse;
    node_get_volume_health = NodeGetVolumeHealth => health(NodeGetVolumeHealthRequest) -> NodeGetVolumeHealthResponse;
}

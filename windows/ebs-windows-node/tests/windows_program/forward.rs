//! A node service that forwards each call to a program.

use anyhow::Context;
use csi_proto::csi;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::node_server::Node;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

#[derive(Clone)]
pub(crate) struct Forward(NodeClient<Channel>);

impl Forward {
    pub(crate) async fn to(address: &str) -> anyhow::Result<Self> {
        let channel =
            Channel::from_shared(format!("http://{address}"))?.connect().await.context("connect to the driver")?;
        Ok(Self(NodeClient::new(channel)))
    }
}

macro_rules! forwarded {
    ($($method:ident: $request:ident => $response:ident;)+) => {
        #[tonic::async_trait]
        impl Node for Forward {
            $(async fn $method(&self, request: Request<csi::$request>) -> Result<Response<csi::$response>, Status> {
                self.0.clone().$method(request.into_inner()).await
            })+
        }
    };
}

forwarded! {
    node_stage_volume: NodeStageVolumeRequest => NodeStageVolumeResponse;
    node_unstage_volume: NodeUnstageVolumeRequest => NodeUnstageVolumeResponse;
    node_publish_volume: NodePublishVolumeRequest => NodePublishVolumeResponse;
    node_unpublish_volume: NodeUnpublishVolumeRequest => NodeUnpublishVolumeResponse;
    node_expand_volume: NodeExpandVolumeRequest => NodeExpandVolumeResponse;
    node_get_volume_stats: NodeGetVolumeStatsRequest => NodeGetVolumeStatsResponse;
    node_get_volume_health: NodeGetVolumeHealthRequest => NodeGetVolumeHealthResponse;
    node_get_storage_health: NodeGetStorageHealthRequest => NodeGetStorageHealthResponse;
    node_get_capabilities: NodeGetCapabilitiesRequest => NodeGetCapabilitiesResponse;
    node_get_info: NodeGetInfoRequest => NodeGetInfoResponse;
}

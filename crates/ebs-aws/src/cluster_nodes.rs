//! The port's calls about HyperPod nodes. Each method calls SageMaker once. The first call also calls STS.

use std::time::SystemTime;

use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_types::SdkConfig;
use ebs_ec2::{Action, ClusterNodeDevice, ClusterNodes, DeviceName, HyperPodNode, Result, VolumeId};

use crate::account::Account;
use crate::convert::{about, required};
use crate::reply::Read;
use crate::sagemaker::{Answer, SageMaker};
use crate::user_agent::ExecutionEnvironment;
use crate::{AwsEc2, partition};

/// The clients for cluster nodes. They make no call until a request names such a node.
pub(crate) struct Cluster {
    account: Account,
    sagemaker: SageMaker,
}

impl Cluster {
    pub(crate) fn new(
        shared: &SdkConfig,
        endpoint: Option<String>,
        http: SharedHttpClient,
        agent: &ExecutionEnvironment,
        sts_endpoint: Option<String>,
    ) -> Self {
        Self {
            account: Account::new(shared, agent, sts_endpoint),
            sagemaker: SageMaker::new(shared, endpoint, http, agent.clone()),
        }
    }
}

impl ClusterNodes for AwsEc2 {
    async fn attach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<ClusterNodeDevice> {
        let device = |answer: Answer, said_at| {
            let device = DeviceName::new(required(answer.device_name.filter(|name| !name.is_empty()), "device name")?);
            Ok(ClusterNodeDevice { device, said_at })
        };
        self.about_node(Action::AttachClusterNodeVolume, node, volume, device).await
    }

    async fn detach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<()> {
        self.about_node(Action::DetachClusterNodeVolume, node, volume, |_, _| Ok(())).await
    }
}

impl AwsEc2 {
    async fn about_node<T: Send>(
        &self,
        action: Action,
        node: &HyperPodNode,
        volume: &VolumeId,
        read: impl FnOnce(Answer, Option<SystemTime>) -> Read<T> + Send,
    ) -> Result<T> {
        let sagemaker = &self.cluster.sagemaker;
        let account = self.cluster.account.id(self).await?;
        let region = sagemaker.region();
        let partition = partition::of(region).name;
        let body = serde_json::json!({
            "ClusterArn": format!("arn:{partition}:sagemaker:{region}:{account}:cluster/{}", node.cluster()),
            "NodeId": node.instance().as_str(),
            "VolumeId": volume.as_str(),
        });
        let monitor = self.monitor(action);
        let operation = sagemaker.operation(&monitor);
        let watch = monitor.clone();
        self.call(monitor, Box::pin(operation.invoke(body.to_string())), |answer| {
            about(&required(answer.volume_id.as_deref(), "volume id")?, &volume.as_str())?;
            about(&required(answer.node_id.as_deref(), "node id")?, &node.instance().as_str())?;
            read(answer, watch.date())
        })
        .await
    }
}

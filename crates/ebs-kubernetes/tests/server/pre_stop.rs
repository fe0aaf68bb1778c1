//! Tests the pre-stop hook with real attachments.

use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_ec2::DriverName;
use ebs_kubernetes::{PreStop, Released};
use ebs_testkit::kube_api::{KubeApi, Who};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::rights::Pod;
use crate::support::{ATTACHMENTS, BOUND, DRIVER, connect, make_node, node_account, shared, taint, unique};

async fn attach(api: &KubeApi, attacher: &str, node: &str) -> anyhow::Result<String> {
    let name = unique("csi");
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        // As the attacher does, set a finalizer, which keeps the object until the volume is detached.
        "metadata": { "name": name, "finalizers": ["external-attacher/ebs-csi-aws-com"] },
        "spec": { "attacher": attacher, "nodeName": node, "source": { "persistentVolumeName": "pv-1" } },
    });
    api.create(ATTACHMENTS, &attachment).await?;
    Ok(format!("{ATTACHMENTS}/{name}"))
}

#[tokio::test]
async fn hook_with_node_account_ends_when_volume_is_detached() -> anyhow::Result<()> {
    let api = shared().await?;
    node_account(&api).await?;
    let name = unique("drained");
    make_node(&api, &name, &[taint("node.kubernetes.io/unschedulable")]).await?;
    let pod = Pod::on(&api, &name).await?;
    let ours = attach(&api, DRIVER, &name).await?;
    attach(&api, DRIVER, "another-node").await?;
    attach(&api, "efs.csi.aws.com", &name).await?;

    let cluster = connect(&api.kubeconfig(Who::Token(&pod.token(&api).await?))?).await?;
    let mut hook = JoinSet::new();
    let (node, driver) = (name.clone(), DriverName::default());
    hook.spawn(async move { PreStop::new(cluster, &node, driver).wait().await });
    // The attachment is deleted, but the volume is not detached yet.
    api.delete(&ours).await?;
    let early = tokio::time::timeout(Duration::from_secs(2), hook.join_next()).await;
    ensure!(early.is_err(), "{early:?}");
    api.merge(&ours, &json!({ "metadata": { "finalizers": Value::Null } })).await?;
    let ended = tokio::time::timeout(BOUND, hook.join_next()).await?.context("the hook")??;
    ensure!(ended? == Released::Detached);
    Ok(())
}

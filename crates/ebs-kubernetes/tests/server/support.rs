//! Sets up objects with unique names on the shared server, and connections to it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use ebs_kubernetes::{Cluster, ClusterOptions, InCluster};
use ebs_testkit::kube_api::{KubeApi, SharedKubeApi};
use serde_json::{Value, json};

/// The time limit of any step on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(120);
pub(crate) const DRIVER: &str = "ebs.csi.aws.com";
pub(crate) const TAINT: &str = "ebs.csi.aws.com/agent-not-ready";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
pub(crate) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// Returns a name that no other test of this process uses.
pub(crate) fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn shared() -> anyhow::Result<Arc<SharedKubeApi>> {
    KubeApi::shared().await
}

pub(crate) async fn connect(kubeconfig: &Path) -> anyhow::Result<Cluster> {
    let options = ClusterOptions {
        kubeconfig: Some(kubeconfig.to_owned()),
        in_cluster: InCluster::default(),
        user_agent: "ebs-kubernetes/test".to_owned(),
    };
    Ok(Cluster::connect(&options).await?)
}

pub(crate) fn taint(key: &str) -> Value {
    json!({ "key": key, "effect": "NoSchedule" })
}

pub(crate) async fn make_node(api: &KubeApi, name: &str, taints: &[Value]) -> anyhow::Result<Value> {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "team": "a" } },
        "spec": { "taints": taints },
    });
    api.create(NODES, &node).await
}

pub(crate) async fn register(api: &KubeApi, node: &Value) -> anyhow::Result<()> {
    let name = node["metadata"]["name"].as_str().context("a name")?;
    let csi_node = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {
            "name": name,
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"] }],
        },
        "spec": { "drivers": [{ "name": DRIVER, "nodeID": "i-1", "topologyKeys": [], "allocatable": { "count": 25 } }] },
    });
    api.delete(&format!("{CSI_NODES}/{name}")).await?;
    api.create(CSI_NODES, &csi_node).await?;
    Ok(())
}

pub(crate) async fn taints(api: &KubeApi, node: &str) -> anyhow::Result<Vec<String>> {
    let node = api.get(&format!("{NODES}/{node}")).await?.context("the Node")?;
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    Ok(taints.iter().filter_map(|taint| taint["key"].as_str()).map(str::to_owned).collect())
}

pub(crate) async fn until_taints(api: &KubeApi, node: &str, wanted: &[&str]) -> anyhow::Result<()> {
    let mut last = Vec::new();
    let deadline = tokio::time::Instant::now() + BOUND;
    while tokio::time::Instant::now() < deadline {
        match taints(api, node).await {
            Ok(found) if found == wanted => return Ok(()),
            Ok(found) => last = found,
            // A test may have stopped the server in the meantime.
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the taints of {node} are {last:?}, not {wanted:?}");
}

/// Applies the manifests of the node service account and waits until the policy is active.
pub(crate) async fn node_account(api: &KubeApi) -> anyhow::Result<()> {
    api.apply(include_str!("../manifests/node-rights.yaml")).await
}

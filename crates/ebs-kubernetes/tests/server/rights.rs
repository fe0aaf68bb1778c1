//! Tests what the service account of the node pods may do.

use anyhow::{Context, ensure};
use ebs_ec2::DriverName;
use ebs_kubernetes::TaintRemoval;
use ebs_testkit::kube_api::{KubeApi, Who};
use http::Request;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{
    ATTACHMENTS, BOUND, CSI_NODES, DRIVER, NODES, TAINT, connect, make_node, node_account, register, shared, taint,
    taints, unique, until_taints,
};

const PODS: &str = "/api/v1/namespaces/kube-system/pods";
const PERSISTENT_VOLUMES: &str = "/api/v1/persistentvolumes";
const ACCOUNT: &str = "/api/v1/namespaces/kube-system/serviceaccounts/ebs-csi-node-sa";

/// A pod on one node that runs under the node service account.
pub(crate) struct Pod(Value);

impl Pod {
    pub(crate) async fn on(api: &KubeApi, node: &str) -> anyhow::Result<Self> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": unique("ebs-csi-node") },
            "spec": {
                "nodeName": node, "serviceAccountName": "ebs-csi-node-sa",
                "containers": [{ "name": "ebs-plugin", "image": "none" }],
            },
        });
        Ok(Self(api.create(PODS, &pod).await?))
    }

    /// Returns a token as the kubelet requests it: bound to the pod, and therefore to the pod's node.
    pub(crate) async fn token(&self, api: &KubeApi) -> anyhow::Result<String> {
        let Value::Object(metadata) = &self.0["metadata"] else { anyhow::bail!("a pod without metadata") };
        let bound = json!({ "kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"] });
        token(api, &json!({ "boundObjectRef": bound })).await
    }
}

pub(crate) async fn token(api: &KubeApi, spec: &Value) -> anyhow::Result<String> {
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
    let answer = api.create(&format!("{ACCOUNT}/token"), &request).await?;
    Ok(answer["status"]["token"].as_str().context("a token")?.to_owned())
}

/// A client that uses a token and returns the server's errors.
struct Speaker(kube::Client);

impl Speaker {
    async fn with(api: &KubeApi, token: &str) -> anyhow::Result<Self> {
        Ok(Self(connect(&api.kubeconfig(Who::Token(token))?).await?.client()))
    }

    async fn merge(&self, path: &str, patch: &Value) -> Result<(), String> {
        self.send("PATCH", path, "application/merge-patch+json", patch).await
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> Result<(), String> {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(body.to_string().into_bytes()).map_err(|error| error.to_string())?;
        self.0.request_text(request).await.map(drop).map_err(|error| match error {
            kube::Error::Api(status) => format!("{} {}", status.code, status.message),
            other => other.to_string(),
        })
    }
}

/// Waits until the server enforces the policy. The server receives the policy through its own watch.
async fn in_force(speaker: &Speaker, path: &str) -> anyhow::Result<()> {
    let probe = async {
        while speaker
            .merge(&format!("{path}?dryRun=All"), &json!({ "metadata": { "labels": { "probe": "x" } } }))
            .await
            .is_ok()
        {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    Ok(tokio::time::timeout(BOUND, probe).await?)
}

/// The account cannot change other taints, labels and fields of the Node, or any other Node.
#[tokio::test]
async fn node_account_may_only_remove_the_taint_of_its_own_node() -> anyhow::Result<()> {
    let api = shared().await?;
    node_account(&api).await?;
    let (own, other) = (unique("own"), unique("other"));
    let node = make_node(&api, &own, &[taint("a"), taint(TAINT)]).await?;
    make_node(&api, &other, &[taint(TAINT)]).await?;
    register(&api, &node).await?;
    let token = Pod::on(&api, &own).await?.token(&api).await?;
    let speaker = Speaker::with(&api, &token).await?;
    let path = format!("{NODES}/{own}");
    in_force(&speaker, &path).await?;

    let refused = [
        (json!({ "metadata": { "labels": { "ebs.csi.aws.com/enis-count": "1" } } }), "no labels"),
        (json!({ "metadata": { "labels": { "team": "b" } } }), "no labels"),
        (json!({ "metadata": { "annotations": { "a": "b" } } }), "no labels"),
        (json!({ "metadata": { "finalizers": ["a.b/c"] } }), "finalizers"),
        (json!({ "spec": { "unschedulable": true } }), "nothing but taints"),
        (json!({ "spec": { "providerID": "aws:///us-west-2a/i-1" } }), "nothing but taints"),
        (json!({ "spec": { "taints": [] } }), "no other one"),
        (json!({ "spec": { "taints": [taint(TAINT)] } }), "no other one"),
        (json!({ "spec": { "taints": [taint("a"), taint(TAINT), taint("c")] } }), "no other one"),
        (json!({ "spec": { "taints": [{ "key": "a", "effect": "NoExecute" }] } }), "no other one"),
    ];
    for (patch, words) in refused {
        let answer = speaker.merge(&path, &patch).await;
        ensure!(
            answer.as_ref().is_err_and(|said| said.starts_with("403") && said.contains(words)),
            "{patch}: {answer:?}"
        );
    }
    // RBAC permits no other verb, and no object except the Node itself.
    for (method, path) in [("DELETE", path.clone()), ("PUT", path.clone()), ("PATCH", format!("{path}/status"))] {
        let answer = speaker.send(method, &path, "application/merge-patch+json", &json!({})).await;
        ensure!(answer.as_ref().is_err_and(|said| said.starts_with("403")), "{method}: {answer:?}");
    }
    let elsewhere = speaker.merge(&format!("{NODES}/{other}"), &json!({ "spec": { "taints": [] } })).await;
    let says_whose = |said: &String| said.contains(&format!("runs on node {own}"));
    ensure!(elsewhere.as_ref().is_err_and(says_whose), "{elsewhere:?}");
    ensure!(taints(&api, &other).await? == [TAINT] && taints(&api, &own).await? == ["a", TAINT]);

    let cluster = connect(&api.kubeconfig(Who::Token(&token))?).await?;
    let mut removal = JoinSet::new();
    removal.spawn(TaintRemoval::new(cluster, &own, DriverName::default()).run());
    until_taints(&api, &own, &["a"]).await
}

#[tokio::test]
async fn token_without_a_pod_cannot_change_a_node() -> anyhow::Result<()> {
    let api = shared().await?;
    node_account(&api).await?;
    let name = unique("claimless");
    make_node(&api, &name, &[taint(TAINT)]).await?;
    let speaker = Speaker::with(&api, &token(&api, &json!({})).await?).await?;
    let path = format!("{NODES}/{name}");
    in_force(&speaker, &path).await?;
    let answer = speaker.merge(&path, &json!({ "spec": { "taints": [] } })).await;
    ensure!(answer.as_ref().is_err_and(|said| said.contains("the token names no node")), "{answer:?}");
    ensure!(taints(&api, &name).await? == [TAINT]);
    Ok(())
}

/// RBAC rejects the calls before the API server looks for the object, except for the patch of a volume that exists.
#[tokio::test]
async fn node_account_cannot_change_volumes_or_claims() -> anyhow::Result<()> {
    let api = shared().await?;
    node_account(&api).await?;
    let (node, volume) = (unique("volumeless"), unique("pv"));
    make_node(&api, &node, &[]).await?;
    let spec = json!({
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
        "csi": { "driver": DRIVER, "volumeHandle": "vol-0123456789abcdef0" },
    });
    let object =
        json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": volume }, "spec": spec });
    api.create(PERSISTENT_VOLUMES, &object).await?;
    let speaker = Speaker::with(&api, &Pod::on(&api, &node).await?.token(&api).await?).await?;
    let path = format!("{PERSISTENT_VOLUMES}/{volume}");
    let (claims, attachments) = ("/api/v1/namespaces/default/persistentvolumeclaims", ATTACHMENTS);
    for (method, path) in [
        ("PATCH", path.clone()),
        ("PUT", path.clone()),
        ("DELETE", path.clone()),
        ("PATCH", format!("{path}/status")),
        ("POST", PERSISTENT_VOLUMES.to_owned()),
        ("PATCH", format!("{claims}/data")),
        ("POST", claims.to_owned()),
        ("PATCH", format!("{attachments}/csi-1")),
        ("POST", attachments.to_owned()),
        ("DELETE", format!("{attachments}/csi-1")),
        ("PATCH", format!("{}/{node}", CSI_NODES)),
    ] {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let answer = speaker.send(method, &path, kind, &json!({ "spec": { "nodeAffinity": null } })).await;
        let is_rejected = |said: &String| said.starts_with("403") && said.contains("ebs-csi-node-sa");
        ensure!(answer.as_ref().is_err_and(is_rejected), "{method} {path}: {answer:?}");
    }
    let kept = api.get(&path).await?.context("the volume")?;
    ensure!(kept["spec"]["csi"]["volumeHandle"] == "vol-0123456789abcdef0", "{kept}");
    api.delete(&path).await?;
    Ok(())
}

/// The policy also holds if the cluster's administrator grants the account more verbs for Nodes.
#[tokio::test]
async fn policy_restricts_a_node_account_with_more_rights() -> anyhow::Result<()> {
    let api = shared().await?;
    node_account(&api).await?;
    let (own, other, role) = (unique("granted"), unique("other"), unique("too-much"));
    for name in [&own, &other] {
        make_node(&api, name, &[taint(TAINT)]).await?;
    }
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let group = "rbac.authorization.k8s.io";
    let rules =
        json!([{ "apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["create", "delete", "patch"] }]);
    let metadata = json!({ "name": role });
    let granted =
        json!({ "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules });
    api.create(&format!("{rbac}/clusterroles"), &granted).await?;
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": "ebs-csi-node-sa", "namespace": "kube-system" }],
    });
    api.create(&format!("{rbac}/clusterrolebindings"), &binding).await?;
    let speaker = Speaker::with(&api, &Pod::on(&api, &own).await?.token(&api).await?).await?;
    let path = format!("{NODES}/{own}");
    in_force(&speaker, &path).await?;
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": unique("made") } });
    let pressure = json!({ "status": { "conditions": [] } });
    for (method, path, body, words) in [
        ("DELETE", path.clone(), json!({}), "make or delete none"),
        ("POST", NODES.to_owned(), node, "may change no other Node"),
        ("PATCH", format!("{path}/status"), pressure, "make or delete none"),
        ("PATCH", format!("{NODES}/{other}"), json!({ "spec": { "taints": [] } }), "may change no other Node"),
    ] {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let answer = speaker.send(method, &path, kind, &body).await;
        let is_rejected = |said: &String| said.starts_with("403") && said.contains(words);
        ensure!(answer.as_ref().is_err_and(is_rejected), "{method} {path}: {answer:?}");
    }
    api.delete(&format!("{rbac}/clusterrolebindings/{role}")).await?;
    api.delete(&format!("{rbac}/clusterroles/{role}")).await?;
    Ok(())
}

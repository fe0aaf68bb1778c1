//! Tests what the service account of the node pods may do.

use anyhow::{Context, ensure};
use ebs_ec2::DriverName;
use ebs_kubernetes::TaintRemoval;
use ebs_testkit::kube_api::{KubeApi, Who};
use http::Request;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{
    BOUND, NODES, TAINT, connect, make_node, node_account, register, shared, taint, taints, unique, until_taints,
};

const PODS: &str = "/api/v1/namespaces/kube-system/pods";
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

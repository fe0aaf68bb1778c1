//! Tests the connection to a real API server.

use std::fs;

use anyhow::ensure;
use ebs_kubernetes::{Cluster, ClusterOptions, Failure, InCluster};
use ebs_testkit::kube_api::Who;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use serde_json::json;

use crate::rights::token;
use crate::support::{connect, make_node, node_account, shared, unique};

/// The token is replaced while the connection is in use.
#[tokio::test]
async fn pod_account_is_accepted_and_rotated_token_is_used_at_once() -> anyhow::Result<()> {
    let api = shared().await?;
    node_account(&api).await?;
    let name = unique("connection");
    make_node(&api, &name, &[]).await?;
    let dir = tempfile::tempdir()?;
    let account = dir.path().to_owned();
    fs::copy(api.ca_file(), account.join("ca.crt"))?;
    fs::write(account.join("namespace"), "kube-system")?;
    fs::write(account.join("token"), token(&api, &json!({})).await?)?;
    let (host, port) = (api.address().ip().to_string(), api.address().port().to_string());
    let in_cluster = InCluster { host: Some(host), port: Some(port), sandbox: None, account: account.clone() };
    let options = ClusterOptions { kubeconfig: None, in_cluster, user_agent: "ebs-kubernetes/test".to_owned() };
    let cluster = Cluster::connect(&options).await?;
    ensure!(cluster.namespace() == "kube-system");
    let nodes: Api<Node> = Api::all(cluster.client());
    ensure!(nodes.get_opt(&name).await?.is_some());
    fs::write(account.join("token"), "of somebody else")?;
    let failure = nodes.get_opt(&name).await.err().map(|error| Failure::of(&error));
    ensure!(failure.as_ref().is_some_and(Failure::is_denied), "{failure:?}");
    fs::write(account.join("token"), token(&api, &json!({})).await?)?;
    ensure!(nodes.get_opt(&name).await?.is_some());
    Ok(())
}

/// The server's certificate is not signed by the configured authority.
#[tokio::test]
async fn server_with_untrusted_certificate_receives_no_token() -> anyhow::Result<()> {
    let api = shared().await?;
    let other = ebs_testkit::kube_api::authority()?;
    let config = fs::read_to_string(api.kubeconfig(Who::Admin)?)?;
    let dir = tempfile::tempdir()?;
    let (path, ca) = (dir.path().join("kubeconfig"), dir.path().join("ca.crt"));
    fs::write(&ca, other)?;
    let (old, new) = (api.ca_file().display().to_string(), ca.display().to_string());
    fs::write(&path, config.replace(&old, &new))?;
    let nodes: Api<Node> = Api::all(connect(&path).await?.client());
    let failure = nodes.get_opt("any").await.err().map(|error| Failure::of(&error).to_string());
    ensure!(failure.as_ref().is_some_and(|said| said.contains("certificate")), "{failure:?}");
    Ok(())
}

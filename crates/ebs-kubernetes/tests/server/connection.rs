//! The connection to a real API server.

use std::fs;

use anyhow::{Context, ensure};
use ebs_kubernetes::{Cluster, ClusterOptions, Failure, InCluster};
use ebs_testkit::kube_api::{KubeApi, Who};
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use serde_json::json;

use crate::rights::token;
use crate::support::{connect, make_node, node_account, shared, unique};

/// As in a pod, with a real token, which is then replaced.
#[tokio::test]
async fn a_pods_account_is_understood_by_the_server_and_a_rotated_token_is_used_at_once() -> anyhow::Result<()> {
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

/// A server whose certificate is not of the authority in the configuration gets no token.
#[tokio::test]
async fn a_server_of_another_authority_is_not_spoken_to() -> anyhow::Result<()> {
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

/// An API server that a test has started is gone with its etcd and its files when the test is over, also when it was stopped in
/// the middle of its work.
#[tokio::test]
async fn an_api_server_of_a_test_leaves_no_process_and_no_files() -> anyhow::Result<()> {
    let api = KubeApi::start().await?;
    let files = api.ca_file().parent().context("a directory")?.to_owned();
    let names_it = || -> anyhow::Result<usize> {
        let mut found = 0;
        for entry in fs::read_dir("/proc")? {
            // Processes come and go.
            let Ok(command) = fs::read(entry?.path().join("cmdline")) else { continue };
            found += usize::from(String::from_utf8_lossy(&command).contains(&files.display().to_string()));
        }
        Ok(found)
    };
    ensure!(names_it()? == 2, "{} processes", names_it()?);
    api.pause()?;
    drop(api);
    ensure!(names_it()? == 0, "{} processes are left", names_it()?);
    ensure!(!files.exists(), "{} is left", files.display());
    Ok(())
}

//! Tests the start-up taint on a real Node.

use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_ec2::DriverName;
use ebs_kubernetes::TaintRemoval;
use ebs_testkit::kube_api::{KubeApi, Who};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{BOUND, NODES, TAINT, connect, make_node, register, shared, taint, taints, unique, until_taints};

async fn removal(api: &KubeApi, who: Who<'_>, node: &str) -> anyhow::Result<JoinSet<()>> {
    let cluster = connect(&api.kubeconfig(who)?).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(TaintRemoval::new(cluster, node, DriverName::default()).run());
    Ok(tasks)
}

async fn set_taints(api: &KubeApi, node: &str, keys: &[&str]) -> anyhow::Result<()> {
    let taints: Vec<Value> = keys.iter().map(|key| taint(key)).collect();
    api.merge(&format!("{NODES}/{node}"), &json!({ "spec": { "taints": taints } })).await?;
    Ok(())
}

#[tokio::test]
async fn real_node_loses_only_its_start_up_taint_after_registration() -> anyhow::Result<()> {
    let api = shared().await?;
    let name = unique("taint");
    let node = make_node(&api, &name, &[taint("b"), taint(TAINT), taint("a")]).await?;
    let _removal = removal(&api, Who::Admin, &name).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(taints(&api, &name).await? == ["b", TAINT, "a"]);
    register(&api, &node).await?;
    until_taints(&api, &name, &["b", "a"]).await?;
    // The driver also removes a taint that is set later, even if it is the Node's only taint.
    set_taints(&api, &name, &[TAINT]).await?;
    until_taints(&api, &name, &[]).await?;
    let after = api.get(&format!("{NODES}/{name}")).await?.context("the Node")?;
    ensure!(after["metadata"]["labels"] == node["metadata"]["labels"], "{after}");
    Ok(())
}

#[tokio::test]
async fn taints_of_other_writers_survive_concurrent_removals() -> anyhow::Result<()> {
    let api = shared().await?;
    let name = unique("writers");
    let node = make_node(&api, &name, &[taint(TAINT)]).await?;
    register(&api, &node).await?;
    let _removal = removal(&api, Who::Admin, &name).await?;
    // Another client adds its own taints and sometimes ours, each time based on the Node's current version.
    let path = format!("{NODES}/{name}");
    let mut written = Vec::new();
    for n in 0..20 {
        let key = format!("writer-{n}");
        loop {
            let node = api.get(&path).await?.context("the Node")?;
            let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            taints.push(taint(&key));
            if n % 3 == 0 && !taints.iter().any(|taint| taint["key"] == TAINT) {
                taints.insert(0, taint(TAINT));
            }
            let version = &node["metadata"]["resourceVersion"];
            let patch = json!({ "metadata": { "resourceVersion": version }, "spec": { "taints": taints } });
            if api.merge(&path, &patch).await.is_ok() {
                break;
            }
        }
        written.push(key);
    }
    let wanted: Vec<&str> = written.iter().map(String::as_str).collect();
    until_taints(&api, &name, &wanted).await
}

#[tokio::test]
async fn recreated_node_loses_its_taint_after_its_own_registration() -> anyhow::Result<()> {
    let api = shared().await?;
    let name = unique("again");
    let node = make_node(&api, &name, &[]).await?;
    register(&api, &node).await?;
    let _removal = removal(&api, Who::Admin, &name).await?;
    api.delete(&format!("{NODES}/{name}")).await?;
    let node = make_node(&api, &name, &[taint(TAINT)]).await?;
    // No garbage collector runs on this server, so the previous CSINode still exists.
    tokio::time::sleep(Duration::from_secs(2)).await;
    ensure!(taints(&api, &name).await? == [TAINT]);
    register(&api, &node).await?;
    until_taints(&api, &name, &[]).await
}

#[tokio::test]
async fn taint_set_after_api_server_was_killed_or_hung_is_removed() -> anyhow::Result<()> {
    let mut api = KubeApi::start().await?;
    let name = unique("restart");
    let node = make_node(&api, &name, &[taint(TAINT)]).await?;
    register(&api, &node).await?;
    let _removal = removal(&api, Who::Admin, &name).await?;
    until_taints(&api, &name, &[]).await?;
    api.kill()?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    api.restart().await?;
    set_taints(&api, &name, &[TAINT]).await?;
    until_taints(&api, &name, &[]).await?;
    api.pause()?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    api.resume()?;
    set_taints(&api, &name, &[TAINT]).await?;
    tokio::time::timeout(BOUND, until_taints(&api, &name, &[])).await?
}

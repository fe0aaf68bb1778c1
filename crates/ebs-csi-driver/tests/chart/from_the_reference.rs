//! Tests the migration from the reference's chart and back, with Helm on a real API server. The chart in `reference/`
//! renders the objects that a release of the reference's chart leaves in a cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::chart;
use crate::on_a_cluster::{OWN_IMAGE, Release, path};

/// The release name in the reference's documentation.
const RELEASE: &str = "aws-ebs-csi-driver";
const POLICY: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/ebs-csi-node-restrict-to-own-node";
const LIVENESS_METRICS: &str = "/api/v1/namespaces/kube-system/services/ebs-csi-controller-liveness-probe";
const WINDOWS: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/ebs-csi-node-windows";
const CONTROLLER: &str = "/apis/apps/v1/namespaces/kube-system/deployments/ebs-csi-controller";

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart")
}

/// Returns the API paths of the release's objects, as Helm lists them.
async fn objects(release: &Release) -> anyhow::Result<Vec<String>> {
    let manifest = release.helm(&["get", "manifest", RELEASE]).await?;
    let objects = serde_saphyr::from_multiple::<Value>(&manifest).context("the release's manifest")?;
    let mut paths = Vec::new();
    for object in objects.iter().filter(|object| !object.is_null()) {
        let kind = path(object)?.context("an object of an unknown kind")?;
        paths.push(format!("{kind}/{}", object["metadata"]["name"].as_str().context("an object without a name")?));
    }
    Ok(paths)
}

/// Returns the UIDs of objects. An object that was replaced has another UID.
async fn identities(release: &Release, paths: &[String]) -> anyhow::Result<Vec<(String, Value)>> {
    let mut found = Vec::new();
    for path in paths {
        found.push((path.clone(), release.get(path).await?["metadata"]["uid"].clone()));
    }
    Ok(found)
}

/// An upgrade from the reference's chart, with the values of its release, changes every object in place. No immutable
/// field prevents the upgrade, and all objects, such as the CSIDriver and the StorageClasses, keep their UIDs. A
/// rollback restores the reference's objects.
#[tokio::test]
async fn upgrade_from_the_reference_chart_replaces_no_object() -> anyhow::Result<()> {
    let release = Release::new().await?;
    let reference = here().join("reference").display().to_string();
    let values = here().join("reference-values.yaml").display().to_string();
    release.helm(&["install", RELEASE, &reference, "-f", &values]).await?;
    let all = objects(&release).await?;
    ensure!(all.len() == 27, "{all:?}");
    // The driver answers the kubelet's probes itself, so nothing serves the metrics of the livenessprobe container.
    let paths: Vec<String> = all.iter().filter(|path| *path != LIVENESS_METRICS).cloned().collect();
    ensure!(paths.len() == 26, "{paths:?}");
    let before = identities(&release, &paths).await?;
    let service = release.get("/api/v1/namespaces/kube-system/services/ebs-csi-node").await?;

    let ours = chart().display().to_string();
    release.helm(&["upgrade", RELEASE, &ours, "--reset-then-reuse-values", "--set", OWN_IMAGE]).await?;
    let now = objects(&release).await?;
    for path in &paths {
        ensure!(now.contains(path), "the chart has no object {path}");
    }
    ensure!(!now.iter().any(|path| path == LIVENESS_METRICS), "{LIVENESS_METRICS} is left without a container");
    ensure!(identities(&release, &paths).await? == before, "objects were replaced");
    let again = release.get("/api/v1/namespaces/kube-system/services/ebs-csi-node").await?;
    ensure!(again["spec"]["clusterIP"] == service["spec"]["clusterIP"], "the Service has another address");
    let containers = release.get(CONTROLLER).await?["spec"]["template"]["spec"]["containers"].clone();
    let args = containers[0]["args"].to_string();
    for kept in ["--extra-tags=team=storage", "--k8s-tag-cluster-id=blue", "--v=4"] {
        ensure!(args.contains(kept), "the release's values do not count: {args}");
    }
    ensure!(containers[0]["image"].as_str().is_some_and(|image| !image.contains("v1.64")), "{containers}");
    release.get(POLICY).await?;

    release.helm(&["rollback", RELEASE, "1"]).await?;
    ensure!(identities(&release, &paths).await? == before, "objects were replaced on the way back");
    let containers = release.get(CONTROLLER).await?["spec"]["template"]["spec"]["containers"].clone();
    ensure!(containers[0]["image"].as_str().is_some_and(|image| image.ends_with(":v1.64.0")), "{containers}");
    ensure!(release.api.get(POLICY).await?.is_none(), "what only this chart has is left behind");
    ensure!(objects(&release).await? == all, "the rolled back release has other objects");
    Ok(())
}

/// Where another driver's image serves Windows nodes, an upgrade needs a decision: it would replace that image.
#[tokio::test]
async fn upgrade_over_windows_nodes_needs_a_decision() -> anyhow::Result<()> {
    let release = Release::new().await?;
    let reference = here().join("reference").display().to_string();
    release.helm(&["install", RELEASE, &reference]).await?;
    let ours = chart().display().to_string();
    let upgrade = ["upgrade", RELEASE, &ours, "--set", OWN_IMAGE, "--dry-run=server"];
    release.helm(&upgrade).await.context("no node runs Windows")?;

    let status = json!({ "status": { "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberMisscheduled": 0,
                                     "numberReady": 3 } });
    release.api.merge(&format!("{WINDOWS}/status"), &status).await?;
    let refused = release.helm(&upgrade).await.err().context("it is not refused")?.to_string();
    ensure!(refused.contains("node.enableWindows: the image \"public.ecr.aws/"), "{refused}");
    ensure!(refused.contains("serves 3 Windows nodes"), "{refused}");
    for decision in ["node.enableWindows=true", "node.enableWindows=false"] {
        release.helm(&[&upgrade[..], &["--set", decision]].concat()).await.context(decision)?;
    }
    Ok(())
}

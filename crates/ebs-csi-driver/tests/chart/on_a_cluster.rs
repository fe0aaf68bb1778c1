//! Checks that a real API server accepts the rendered chart.

use std::collections::BTreeSet;
use std::ffi::OsString;

use anyhow::{Context, bail, ensure};
use ebs_testkit::kube_api::{KubeApi, Who};
use serde_json::{Value, json};

use crate::cases::DEFAULT_KUBERNETES;
use crate::{Outcome, all_pass, chart, corpus, render_all, run};

/// Kinds that other projects define, which the tests' API server does not know.
const OF_OTHERS: [&str; 5] =
    ["VolumeSnapshotClass", "VolumeSnapshot", "VolumeSnapshotContent", "ServiceMonitor", "PrometheusRule"];

/// Returns the path to which an object of this kind is posted, or `None` for kinds of other projects.
pub(crate) fn path(object: &Value) -> anyhow::Result<Option<String>> {
    let kind = object["kind"].as_str().context("an object without a kind")?;
    if OF_OTHERS.contains(&kind) {
        return Ok(None);
    }
    let version = object["apiVersion"].as_str().context("an object without a version")?;
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let plural = match kind {
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
        "StorageClass" => "storageclasses".to_owned(),
        "VolumeAttributesClass" => "volumeattributesclasses".to_owned(),
        _ => format!("{}s", kind.to_lowercase()),
    };
    Ok(Some(match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    }))
}

/// Returns the minor version of the API server: 35 for 1.35.4.
async fn minor(api: &KubeApi) -> anyhow::Result<u32> {
    let version = api.get("/version").await?.context("no version")?;
    let text = version["gitVersion"].as_str().unwrap_or_default();
    let minor = text.split('.').nth(1).and_then(|minor| minor.parse().ok());
    minor.with_context(|| format!("{text:?} is not a version"))
}

/// Checks that the API server accepts an object in a strict dry run. With `may_lack`, the check also passes if the
/// server rejects the object because it lacks fields.
async fn judge(object: &Value, api: &KubeApi, may_lack: bool) -> anyhow::Result<()> {
    let Some(path) = path(object)? else { return Ok(()) };
    let answer = api.call("POST", &format!("{path}?dryRun=All&fieldValidation=Strict"), Some(object)).await?;
    let causes = answer.body["details"]["causes"].as_array();
    let names_fields = causes.is_some_and(|all| !all.is_empty() && all.iter().all(|cause| cause["field"].is_string()));
    if may_lack && answer.status == 422 && names_fields {
        return Ok(());
    }
    answer.granted().with_context(|| format!("{} {}", object["kind"], object["metadata"]["name"]))?;
    Ok(())
}

/// Creates namespaces, each with the service account that pods need. In a complete cluster, a Kubernetes controller
/// creates this account.
pub(crate) async fn make_namespaces(api: &KubeApi) -> anyhow::Result<()> {
    for name in ["kube-system", "nodes", "grafana", "default"] {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
        let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
        for (path, object) in [("/api/v1/namespaces", namespace), (&accounts, account)] {
            let made = api.call("POST", path, Some(&object)).await?;
            ensure!(made.status == 409 || (200..300).contains(&made.status), "{made:?}");
        }
    }
    Ok(())
}

/// Validation is strict: it allows no unknown fields and no duplicate keys. If the values remove a required field, the
/// server may reject the object with an error that names fields.
#[tokio::test]
async fn real_api_server_accepts_every_rendered_object() -> anyhow::Result<()> {
    let api = KubeApi::shared().await?;
    make_namespaces(&api).await?;
    let version = format!("1.{}.0", minor(&api).await?);
    let for_another: Vec<Outcome>;
    let outcomes = if version == DEFAULT_KUBERNETES {
        corpus().await?
    } else {
        for_another = render_all(Some(&version)).await?;
        &for_another
    };
    // Most objects are the same in most cases, so check each only once.
    let mut seen = BTreeSet::new();
    let mut results = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.case.refused.is_none()) {
        results.push((outcome.case.title.clone(), dry_run(outcome, &api, &mut seen).await));
    }
    all_pass(results.into_iter())
}

async fn dry_run(outcome: &Outcome, api: &KubeApi, seen: &mut BTreeSet<String>) -> anyhow::Result<()> {
    for object in outcome.objects()?.all() {
        if seen.insert(object.to_string()) {
            judge(object, api, outcome.case.is_incomplete).await?;
        }
    }
    Ok(())
}

/// The server checks the examples in a strict dry run.
#[tokio::test]
async fn real_api_server_accepts_every_example() -> anyhow::Result<()> {
    let api = KubeApi::shared().await?;
    make_namespaces(&api).await?;
    let mut files = 0;
    for folder in std::fs::read_dir(chart().join("../../examples"))? {
        let folder = folder?.path();
        if !folder.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(folder)? {
            let file = file?.path();
            files += 1;
            take_example(&std::fs::read_to_string(&file)?, &api).await.with_context(|| file.display().to_string())?;
        }
    }
    ensure!(files >= 20, "{files} files");
    let secret = std::fs::read_to_string(chart().join("../../deploy/kubernetes/secret.yaml"))?;
    take_example(&secret, &api).await?;
    let secret: Value = serde_saphyr::from_str(&secret)?;
    let values: Value = serde_saphyr::from_str(&std::fs::read_to_string(chart().join("values.yaml"))?)?;
    let named = &values["awsAccessSecret"];
    ensure!(secret["metadata"]["name"] == named["name"], "{secret} {named}");
    for key in [&named["keyId"], &named["accessKey"]] {
        ensure!(key.as_str().is_some_and(|key| secret["stringData"][key].is_string()), "{secret} {named}");
    }
    Ok(())
}

async fn take_example(text: &str, api: &KubeApi) -> anyhow::Result<()> {
    let minor = minor(api).await?;
    for mut object in serde_saphyr::from_multiple::<Value>(text)? {
        if object["kind"] == "VolumeAttributesClass" && minor < 34 {
            continue;
        }
        // kubectl uses the default namespace for an object without one.
        if ["Pod", "PersistentVolumeClaim", "Deployment"].iter().any(|kind| object["kind"] == **kind) {
            object["metadata"]["namespace"] = json!("default");
        }
        judge(&object, api, false).await?;
    }
    Ok(())
}

/// A Helm release on its own cluster.
pub(crate) struct Release {
    pub(crate) api: KubeApi,
    kubeconfig: OsString,
    home: tempfile::TempDir,
}

impl Release {
    pub(crate) async fn new() -> anyhow::Result<Self> {
        let api = KubeApi::start().await?;
        make_namespaces(&api).await?;
        let kubeconfig = api.kubeconfig(Who::Admin)?.into_os_string();
        Ok(Self { api, kubeconfig, home: tempfile::tempdir()? })
    }

    pub(crate) async fn helm(&self, args: &[&str]) -> anyhow::Result<String> {
        let helm = std::env::var("EBS_TEST_HELM").context("EBS_TEST_HELM names no helm")?;
        let mut all: Vec<OsString> = args.iter().map(OsString::from).collect();
        all.extend(["--kubeconfig".into(), self.kubeconfig.clone(), "-n".into(), "kube-system".into()]);
        let home = self.home.path().display().to_string();
        let (code, text) = run(helm.into(), all, [("HOME".to_owned(), home)].into()).await?;
        if code != Some(0) {
            bail!("helm {args:?} ended with {code:?}: {text}");
        }
        Ok(text)
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.api.get(path).await?.with_context(|| format!("there is no {path}"))
    }
}

/// The image of the driver, for `--set`.
pub(crate) const OWN_IMAGE: &str = "image.repository=registry.example.com/aws-ebs-csi-driver";

/// Helm installs exactly the permissions with which the tests of `ebs-kubernetes` run. Helm's notes name the pods'
/// labels and the AWS policies, and report that the cluster serves no snapshots.
#[tokio::test]
async fn helm_installs_tested_permissions_and_uninstalls_everything() -> anyhow::Result<()> {
    let release = Release::new().await?;
    let notes = release.helm(&["install", "ebs", &chart().display().to_string(), "--set", OWN_IMAGE]).await?;
    for said in ["app.kubernetes.io/instance=ebs", "deploy/iam", "serves no snapshot API", "ebs-csi-node-windows"] {
        ensure!(notes.contains(said), "{said:?} is not in {notes}");
    }
    ensure!(!notes.contains("No policy restricts"), "{notes}");
    let rights = include_str!("../../../ebs-kubernetes/tests/manifests/node-rights.yaml");
    for wanted in serde_saphyr::from_multiple::<Value>(rights)? {
        let Some(kind) = path(&wanted)? else { continue };
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
        let installed = release.get(&format!("{kind}/{name}")).await?;
        let (mut wanted, mut installed) = (rules(&wanted), rules(&installed));
        wanted.sort();
        installed.sort();
        ensure!(wanted == installed, "{name}: the chart's\n{installed:#?}\nare not the tested\n{wanted:#?}");
    }

    let shared = ["--set", OWN_IMAGE, "--set", "node.serviceAccount.create=false", "--set", "node.enableWindows=false"];
    let upgrade = ["upgrade", "ebs", &chart().display().to_string()];
    let notes = release.helm(&[&upgrade[..], &shared[..]].concat()).await?;
    ensure!(notes.contains("No policy restricts") && notes.contains("serviceAccount.create is false"), "{notes}");
    ensure!(!notes.contains("windows"), "{notes}");
    release.helm(&["uninstall", "ebs"]).await?;
    for gone in [
        "/apis/storage.k8s.io/v1/csidrivers/ebs.csi.aws.com",
        "/apis/apps/v1/namespaces/kube-system/deployments/ebs-csi-controller",
    ] {
        ensure!(release.api.get(gone).await?.is_none(), "{gone} is left behind");
    }
    Ok(())
}

/// Returns one line of text for each rule that an RBAC object grants or checks.
fn rules(object: &Value) -> Vec<String> {
    let expressions = object["spec"]["validations"].as_array().into_iter().flatten();
    let expressions = expressions.map(|each| each["expression"].to_string());
    let granted = object["rules"].as_array().into_iter().flatten().map(Value::to_string);
    granted.chain(expressions).collect()
}

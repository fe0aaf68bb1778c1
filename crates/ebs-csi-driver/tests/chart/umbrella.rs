//! Tests the chart inside another chart, which calls and overrides its named templates. Charts around the reference's
//! chart do both.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::objects::Rendered;
use crate::{IMAGE, chart, run};

/// The names of the reference's templates that charts call, with the text that each prints for [`VALUES`] in the
/// release `blue`. Facts of the reference's chart 2.64, except the chart's version and image.
const TEMPLATES: [(&str, &str); 9] = [
    ("aws-ebs-csi-driver.name", "renamed"),
    ("aws-ebs-csi-driver.fullname", "blue-renamed"),
    ("aws-ebs-csi-driver.chart", "aws-ebs-csi-driver-0.1.0"),
    ("aws-ebs-csi-driver.fullImagePath", "mirror.example.com/storage/driver:v9"),
    (
        "aws-ebs-csi-driver.selectorLabels",
        r#"{"app.kubernetes.io/instance":"blue","app.kubernetes.io/name":"renamed"}"#,
    ),
    (
        "aws-ebs-csi-driver.labels",
        r#"{"app.kubernetes.io/component":"csi-driver","app.kubernetes.io/instance":"blue","app.kubernetes.io/managed-by":"Helm","app.kubernetes.io/name":"renamed","app.kubernetes.io/version":"0.1.0","helm.sh/chart":"aws-ebs-csi-driver-0.1.0","team":"storage"}"#,
    ),
    ("aws-ebs-csi-driver.extra-volume-tags", r#"["--extra-tags=a=b"]"#),
    (
        "aws-ebs-csi-driver.http-proxy",
        r#"[{"name":"HTTP_PROXY","value":"http://p:1"},{"name":"HTTPS_PROXY","value":"http://p:1"},{"name":"NO_PROXY","value":".svc"}]"#,
    ),
    (
        "aws-ebs-csi-driver.daemonset-tolerations",
        r#"[{"key":"ebs.csi.aws.com/agent-not-ready","operator":"Exists"},{"key":"ToBeDeletedByClusterAutoscaler","operator":"Exists"},{"key":"karpenter.sh/disrupted","operator":"Exists"},{"key":"karpenter.sh/disruption","operator":"Exists"}]"#,
    ),
];
const VALUES: &str = "
aws-ebs-csi-driver:
  nameOverride: renamed
  image: {containerRegistry: mirror.example.com/, repository: storage/driver, tag: v9}
  customLabels: {team: storage}
  proxy: {http_proxy: 'http://p:1', no_proxy: .svc}
  controller: {extraVolumeTags: {a: b}}
";

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Renders a chart that contains the chart, with these templates and values.
async fn render_around(templates: &str, values: &str) -> anyhow::Result<Rendered> {
    let helm = std::env::var("EBS_TEST_HELM").context("EBS_TEST_HELM names no helm: eval \"$(scripts/setup test)\"")?;
    let dir = tempfile::tempdir()?;
    let outer = dir.path().join("outer");
    copy(&chart(), &outer.join("charts/aws-ebs-csi-driver"))?;
    std::fs::create_dir(outer.join("templates"))?;
    std::fs::write(outer.join("templates/all.yaml"), templates)?;
    let version = env!("CARGO_PKG_VERSION");
    let metadata = format!(
        "{{apiVersion: v2, name: outer, version: 1.2.3, dependencies: [{{name: aws-ebs-csi-driver, version: {version}}}]}}"
    );
    std::fs::write(outer.join("Chart.yaml"), metadata)?;
    std::fs::write(dir.path().join("image.yaml"), format!("{{aws-ebs-csi-driver: {{{IMAGE}}}}}"))?;
    std::fs::write(dir.path().join("values.yaml"), values)?;
    let args = ["template", "blue", "-n", "kube-system", "--kube-version", crate::cases::DEFAULT_KUBERNETES];
    let mut args: Vec<OsString> = args.map(OsString::from).to_vec();
    args.push(outer.into());
    for file in ["image.yaml", "values.yaml"] {
        args.extend(["-f".into(), dir.path().join(file).into_os_string()]);
    }
    let home = dir.path().display().to_string();
    let (code, text) = run(helm.into(), args, BTreeMap::from([("HOME".to_owned(), home)])).await?;
    ensure!(code == Some(0), "helm failed: {text}");
    Rendered::parse(&text)
}

/// A chart around this one calls the reference's templates by their names.
#[tokio::test]
async fn chart_has_the_named_templates_of_the_reference() -> anyhow::Result<()> {
    let mut printer = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: printed}\ndata:\n".to_owned();
    for (name, _) in TEMPLATES {
        let call = format!("{{{{ include \"{name}\" (index .Subcharts \"aws-ebs-csi-driver\") | toJson }}}}");
        printer.push_str(&format!("  {name}: {call}\n"));
    }
    let rendered = render_around(&printer, VALUES).await?;
    let printed = rendered.all().iter().find(|object| object["metadata"]["name"] == "printed").context("printed")?;
    for (name, wanted) in TEMPLATES {
        let text = printed["data"][name].as_str().with_context(|| name.to_owned())?;
        let parsed: Value = serde_saphyr::from_str(text).with_context(|| text.to_owned())?;
        let wanted: Value = serde_json::from_str(wanted).unwrap_or_else(|_| json!(wanted));
        ensure!(parsed == wanted, "{name} prints {text:?}");
    }
    Ok(())
}

/// A chart around this one replaces the labels and the selectors of all objects.
#[tokio::test]
async fn overriding_charts_change_labels_and_selectors_everywhere() -> anyhow::Result<()> {
    let overrides = r#"
{{- define "aws-ebs-csi-driver.selectorLabels" -}}
app.kubernetes.io/name: own
own/selector: "yes"
{{- end -}}
{{- define "aws-ebs-csi-driver.labels" -}}
{{ include "aws-ebs-csi-driver.selectorLabels" . }}
own/chart: {{ include "aws-ebs-csi-driver.chart" . }}
{{- end -}}
"#;
    let rendered = render_around(overrides, "aws-ebs-csi-driver: {node: {enableMetrics: true}}").await?;
    let mut selecting = 0;
    for object in rendered.all() {
        let kind = object["kind"].as_str().unwrap_or_default();
        let about = format!("{kind} {}", object["metadata"]["name"]);
        if ["Deployment", "DaemonSet", "PodDisruptionBudget"].contains(&kind) {
            selecting += 1;
            let selector = object["spec"]["selector"]["matchLabels"].as_object().context("a selector")?;
            let app = selector["app"].as_str().context("app")?;
            let wanted = json!({ "app": app, "app.kubernetes.io/name": "own", "own/selector": "yes" });
            ensure!(json!(selector) == wanted, "{about}: {selector:?}");
            let labels = &object["spec"]["template"]["metadata"]["labels"];
            ensure!(labels.is_null() || selector.iter().all(|(key, value)| labels[key] == *value), "{about}: {labels}");
        }
        // The reference gives these no common labels.
        if !["Service", "Pod"].contains(&kind) {
            ensure!(object["metadata"]["labels"]["own/chart"] == "aws-ebs-csi-driver-0.1.0", "{about}: {object}");
        }
    }
    ensure!(selecting == 4, "{selecting} objects select pods");
    Ok(())
}

/// Templates are global in Helm, so a short name could be one that another chart of the release uses.
#[test]
fn every_template_name_begins_with_the_name_of_the_chart() -> anyhow::Result<()> {
    let mut names = 0;
    for file in std::fs::read_dir(chart().join("templates"))? {
        let text = std::fs::read_to_string(file?.path())?;
        for rest in text.split("define \"").skip(1) {
            let name = rest.split('"').next().unwrap_or_default();
            names += 1;
            ensure!(name.starts_with("aws-ebs-csi-driver."), "{name}");
        }
    }
    ensure!(names > 30, "{names} templates");
    Ok(())
}

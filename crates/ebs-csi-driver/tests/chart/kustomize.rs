//! Tests the manifests for kustomize: each overlay builds the chart's objects, and a real API server accepts them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::cases::Case;
use crate::objects::Rendered;
use crate::{chart, render, run};

struct Overlay {
    /// Path below `overlays/stable`.
    path: &'static str,
    kubernetes: &'static str,
    registry: &'static str,
}

const OVERLAYS: [Overlay; 5] = [
    Overlay { path: "", kubernetes: "1.35.0", registry: "public.ecr.aws/csi-components/" },
    Overlay { path: "gcr", kubernetes: "1.35.0", registry: "registry.k8s.io/sig-storage/" },
    Overlay { path: "ecr-public", kubernetes: "1.35.0", registry: "public.ecr.aws/csi-components/" },
    Overlay { path: "ecr", kubernetes: "1.35.0", registry: "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/" },
    Overlay { path: "before-1.34", kubernetes: "1.30.0", registry: "public.ecr.aws/csi-components/" },
];

fn deploy() -> PathBuf {
    chart().join("../../deploy/kubernetes")
}

async fn build(overlay: &Path) -> anyhow::Result<Rendered> {
    let kustomize = std::env::var("EBS_TEST_KUSTOMIZE")
        .context("EBS_TEST_KUSTOMIZE names no kustomize: eval \"$(scripts/setup test)\"")?;
    let (code, text) = run(kustomize.into(), vec!["build".into(), overlay.into()], [].into()).await?;
    ensure!(code == Some(0), "kustomize build {} ended with {code:?}: {text}", overlay.display());
    Rendered::parse(&text)
}

/// Returns the chart's objects as rendered for kustomize, without the objects that the base omits.
async fn rendered(kubernetes: &str) -> anyhow::Result<Vec<Value>> {
    let case = Case {
        values: "{helmTester: {enabled: false}, controller: {userAgentExtra: kustomize}, node: {enableWindows: false}}"
            .to_owned(),
        apis: vec!["snapshot.storage.k8s.io/v1".to_owned()],
        kubernetes: Some(kubernetes.to_owned()),
        release: Some("kustomize".to_owned()),
        ..Case::default()
    };
    let (code, text) = render(&case).await?;
    ensure!(code == Some(0), "helm failed: {text}");
    Ok(Rendered::parse(&text)?.all().to_vec())
}

/// Collects the sidecar images in `images` and removes them from the object, so that objects can be compared without
/// them.
fn without_sidecar_images(object: &mut Value, images: &mut BTreeSet<String>) {
    let containers = object.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten().filter(|container| container["name"] != "ebs-plugin") {
        if let Value::String(image) = container["image"].take() {
            images.insert(image);
        }
    }
}

fn sorted(objects: &[Value], images: &mut BTreeSet<String>) -> Vec<Value> {
    let mut objects = objects.to_vec();
    objects.iter_mut().for_each(|object| without_sidecar_images(object, images));
    objects.sort_by_key(|object| format!("{}/{}", object["kind"], object["metadata"]["name"]));
    objects
}

/// Each overlay has the chart's objects in `kube-system`, except that the overlay replaces every image.
#[tokio::test]
async fn overlay_equals_the_chart_except_for_its_registry_images() -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for Overlay { path, kubernetes, registry } in OVERLAYS {
        seen.insert(path.to_owned());
        let built = build(&deploy().join("overlays/stable").join(path)).await?;
        let mut images = BTreeSet::new();
        let built = sorted(built.all(), &mut images);
        let wanted = sorted(&rendered(kubernetes).await?, &mut BTreeSet::new());
        let differing: Vec<_> = wanted.iter().filter(|object| !built.contains(object)).collect();
        ensure!(
            built == wanted,
            "overlay {path:?}: {} objects for {}; differing: {differing:#?}",
            built.len(),
            wanted.len()
        );
        ensure!(images.len() == 5 && images.iter().all(|image| image.starts_with(registry)), "{path:?}: {images:?}");
    }
    for folder in std::fs::read_dir(deploy().join("overlays/stable"))? {
        let folder = folder?;
        let name = folder.file_name().to_string_lossy().into_owned();
        ensure!(!folder.path().is_dir() || seen.contains(&name), "the overlay {name} has no line in this test");
    }
    Ok(())
}

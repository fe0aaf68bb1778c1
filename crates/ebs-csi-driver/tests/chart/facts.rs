//! Compares what the values files render with facts of the reference's chart 2.64: the images of sidecars, and the
//! selectors of pods, which a release cannot change.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::objects::Rendered;
use crate::{Outcome, all_pass, corpus};

/// The containers of sidecars: key in the values, name, default repository, default tag.
const SIDECARS: [(&str, &str, &str, &str); 7] = [
    ("provisioner", "csi-provisioner", "public.ecr.aws/csi-components/csi-provisioner", "v6.3.0-eksbuild.4"),
    ("attacher", "csi-attacher", "public.ecr.aws/csi-components/csi-attacher", "v4.12.0-eksbuild.5"),
    ("snapshotter", "csi-snapshotter", "public.ecr.aws/csi-components/csi-snapshotter", "v8.6.0-eksbuild.5"),
    ("resizer", "csi-resizer", "public.ecr.aws/csi-components/csi-resizer", "v2.2.1-eksbuild.3"),
    ("volumemodifier", "volumemodifier", "public.ecr.aws/ebs-csi-driver/volume-modifier-for-k8s", "v0.9.5-eksbuild.5"),
    ("livenessProbe", "liveness-probe", "public.ecr.aws/csi-components/livenessprobe", "v2.19.0-eksbuild.5"),
    (
        "nodeDriverRegistrar",
        "node-driver-registrar",
        "public.ecr.aws/csi-components/csi-node-driver-registrar",
        "v2.17.0-eksbuild.5",
    ),
];

fn text<'a>(value: &'a Value, default: &'a str) -> &'a str {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(default)
}

/// Returns the number of compared images and selectors.
fn is_as_the_reference(outcome: &Outcome) -> anyhow::Result<(usize, usize)> {
    let values: Value = serde_saphyr::from_str(&outcome.case.values)?;
    let values = if values.is_null() { json!({}) } else { values };
    let rendered = outcome.objects()?;
    let images = compare_images(&values, &rendered)?;
    let name = text(&values["nameOverride"], "aws-ebs-csi-driver");
    let mut selectors = 0;
    for object in rendered.all() {
        let kind = object["kind"].as_str().unwrap_or_default();
        if !["Deployment", "DaemonSet", "PodDisruptionBudget"].contains(&kind) {
            continue;
        }
        let own = object["metadata"]["name"].as_str().context("a name")?;
        let wanted = json!({ "app": own.trim_end_matches("-windows"), "app.kubernetes.io/name": name,
                             "app.kubernetes.io/instance": outcome.case.release() });
        let selector = &object["spec"]["selector"]["matchLabels"];
        ensure!(*selector == wanted, "{kind} {own} selects {selector}");
        selectors += 1;
    }
    Ok((images, selectors))
}

fn compare_images(values: &Value, rendered: &Rendered) -> anyhow::Result<usize> {
    let registry = text(&values["image"]["containerRegistry"], "");
    let mut compared = 0;
    let pods = rendered.all().iter().map(|object| &object["spec"]["template"]["spec"]["containers"]);
    for container in pods.flat_map(|containers| containers.as_array().into_iter().flatten()) {
        let Some((key, name, repository, tag)) = SIDECARS.iter().find(|row| container["name"] == row.1) else {
            continue;
        };
        let given = &values["sidecars"][*key]["image"];
        let (repository, tag) = (text(&given["repository"], repository), text(&given["tag"], tag));
        let wanted = format!("{registry}{repository}:{tag}");
        ensure!(container["image"] == *wanted, "{name}: {} is not {wanted}", container["image"]);
        compared += 1;
    }
    Ok(compared)
}

/// Also if the values give only the repository, only the tag, or only a prefix of all images.
#[tokio::test]
async fn corpus_files_render_images_and_selectors_of_the_reference() -> anyhow::Result<()> {
    let is_file = |outcome: &&Outcome| outcome.case.title.ends_with(".yaml") || outcome.case.title.ends_with(".json");
    let outcomes = corpus().await?.iter().filter(is_file).filter(|outcome| outcome.case.refused.is_none());
    let (mut images, mut selectors, mut results) = (0, 0, Vec::new());
    for outcome in outcomes {
        let compared = is_as_the_reference(outcome);
        if let Ok((some, others)) = &compared {
            images += some;
            selectors += others;
        }
        results.push((outcome.case.title.clone(), compared.map(drop)));
    }
    all_pass(results.into_iter())?;
    ensure!(images > 200 && selectors > 100, "{images} images, {selectors} selectors");
    Ok(())
}

//! Tests host process pods. Since containerd 1.7 their mounts appear at the requested paths and hide the host's content
//! there (Kubernetes' KEP-1981, "Container Mounts").

use std::collections::BTreeMap;

use anyhow::ensure;
use serde_json::Value;

use crate::{Outcome, all_pass, corpus};

/// Splits a path into components that compare as on Windows: without a scheme, in lower case, and for either separator.
fn components(path: &str) -> Vec<String> {
    let parts = path.split(['\\', '/']).filter(|part| !part.is_empty());
    parts.map(str::to_ascii_lowercase).collect()
}

/// Returns the absolute paths in a text.
fn named_paths(text: &str) -> Vec<Vec<String>> {
    let is_drive = |(at, _): &(usize, &str)| {
        let before = text[..*at].chars().next_back();
        before.is_some_and(|drive| drive.is_ascii_alphabetic()) && text[*at + 1..].starts_with(['\\', '/'])
    };
    let drives = text.match_indices(':').filter(is_drive);
    let ends = |from: usize| text[from..].find([' ', ',']).map_or(text.len(), |length| from + length);
    drives.map(|(at, _)| components(&text[at - 1..ends(at)])).collect()
}

/// Returns the volume names of the mounts that hide a path named in the container's arguments or environment. A mount
/// of a host directory at its own path hides nothing.
fn covering(pod: &Value, container: &Value) -> Vec<String> {
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let host_paths: BTreeMap<String, Vec<String>> = all(&pod["volumes"])
        .iter()
        .filter_map(|volume| {
            Some((volume["name"].as_str()?.to_owned(), components(volume["hostPath"]["path"].as_str()?)))
        })
        .collect();
    let texts = [all(&container["args"]), all(&container["command"])].concat();
    let values = all(&container["env"]).into_iter().map(|variable| variable["value"].clone());
    let named: Vec<Vec<String>> =
        texts.into_iter().chain(values).filter_map(|text| Some(named_paths(text.as_str()?))).flatten().collect();
    let mounts = all(&container["volumeMounts"]).into_iter();
    let covers = |mount: &Value| {
        let (name, place) =
            (mount["name"].as_str().unwrap_or_default(), mount["mountPath"].as_str().unwrap_or_default());
        let place = components(place);
        named.iter().any(|path| path.starts_with(&place)) && host_paths.get(name) != Some(&place)
    };
    mounts.filter(covers).map(|mount| mount["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn shows_its_host(outcome: &Outcome) -> anyhow::Result<usize> {
    let mut containers = 0;
    for object in outcome.objects()?.all() {
        let pod = &object["spec"]["template"]["spec"];
        if pod["securityContext"]["windowsOptions"]["hostProcess"] != true {
            continue;
        }
        for container in pod["containers"].as_array().into_iter().flatten() {
            let covered = covering(pod, container);
            ensure!(covered.is_empty(), "{}: the mounts {covered:?} cover what it names", container["name"]);
            containers += 1;
        }
    }
    Ok(containers)
}

/// The arguments or environment of a host process name the paths, such as the path of the driver's socket.
#[tokio::test]
async fn no_mount_hides_a_path_given_to_a_host_process() -> anyhow::Result<()> {
    let rendered = corpus().await?.iter().filter(|outcome| outcome.case.refused.is_none());
    let mut containers = 0;
    let mut results = Vec::new();
    for outcome in rendered {
        let seen = shows_its_host(outcome);
        containers += seen.as_ref().copied().unwrap_or_default();
        results.push((outcome.case.title.clone(), seen.map(drop)));
    }
    all_pass(results.into_iter())?;
    ensure!(containers >= 3, "only {containers} containers of host processes were rendered");
    Ok(())
}

//! Tests the chart's values: values.yaml and the schema agree, and the schema has every value of the reference's chart.
//! The cases set each value and cover each error message.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

use crate::cases::Case;
use crate::{Outcome, all_pass, chart, corpus, render};

/// Values that only the schema lists, because they have no default.
const WITHOUT_DEFAULT: [&str; 10] = [
    "image.containerRegistry",
    "global",
    "enabled",
    "nameOverride",
    "node.windowsHostProcess",
    "serviceMonitor.relabelings",
    "otelTracing.otelServiceName",
    "otelTracing.otelExporterEndpoint",
    "leaderElection.leaseDuration",
    "leaderElection.renewDeadline",
];
/// Values that may have any type in the schema, because the templates check them.
const CHECKED_BY_TEMPLATES: [&str; 2] = ["controller.env", "node.env"];
const SIDECARS: [&str; 8] = [
    "provisioner",
    "attacher",
    "snapshotter",
    "resizer",
    "volumemodifier",
    "metadataLabeler",
    "livenessProbe",
    "nodeDriverRegistrar",
];

fn schema() -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(chart().join("values.schema.json"))?;
    serde_json::from_str(&text).context("values.schema.json")
}

fn defaults() -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(chart().join("values.yaml"))?;
    serde_saphyr::from_str(&text).context("values.yaml")
}

/// The paths in the schema: the maps that allow only listed keys, and the values.
#[derive(Default)]
struct Places {
    closed: BTreeSet<String>,
    leaves: BTreeMap<String, Value>,
}

impl Places {
    fn of(schema: &Value) -> Self {
        let mut places = Self::default();
        places.read(schema, schema, "");
        places
    }

    fn read(&mut self, schema: &Value, part: &Value, path: &str) {
        let elsewhere = part["$ref"].as_str().and_then(|to| schema.pointer(to.trim_start_matches('#')));
        let part = elsewhere.unwrap_or(part);
        let closed = part["additionalProperties"] == json!(false);
        let Some(properties) = part["properties"].as_object().filter(|_| closed) else {
            self.leaves.insert(path.to_owned(), part.clone());
            return;
        };
        self.closed.insert(path.to_owned());
        for (key, part) in properties {
            self.read(schema, part, &joined(path, key));
        }
    }

    /// Returns whether the path is a key of an earlier chart. The schema allows such a key with any type, and a
    /// template rejects it.
    fn is_old(&self, path: &str) -> bool {
        self.leaves.get(path).is_some_and(|part| *part == json!({})) && !CHECKED_BY_TEMPLATES.contains(&path)
    }

    /// Returns the paths of the values that are set, and of keys that are not in the schema.
    fn set_in(&self, values: &Value) -> BTreeSet<String> {
        let mut set = BTreeSet::new();
        self.collect(values, "", &mut set);
        set
    }

    fn collect(&self, values: &Value, path: &str, set: &mut BTreeSet<String>) {
        match values.as_object().filter(|_| self.closed.contains(path)) {
            Some(map) => map.iter().for_each(|(key, value)| self.collect(value, &joined(path, key), set)),
            None => drop(set.insert(path.to_owned())),
        }
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Returns a document with each value at its path.
fn document<'a>(values: impl Iterator<Item = (&'a str, Value)>) -> Value {
    let mut document = Value::Object(Map::new());
    for (path, value) in values {
        let mut place = &mut document;
        for key in path.split('.') {
            place = &mut place[key];
        }
        *place = value;
    }
    document
}

fn values_of(case: &Case) -> anyhow::Result<Value> {
    if case.values.trim().is_empty() {
        return Ok(json!({}));
    }
    serde_saphyr::from_str(&case.values).with_context(|| format!("the values of {:?}", case.title))
}

/// Values without a default and the keys of earlier charts are exempt.
#[test]
fn schema_and_values_file_list_the_same_values() -> anyhow::Result<()> {
    let (schema, defaults) = (schema()?, defaults()?);
    let places = Places::of(&schema);
    let there = places.set_in(&defaults);
    let is_optional = |path: &String| {
        let named = |end: &&str| path.strip_suffix(*end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        WITHOUT_DEFAULT.iter().any(named) || path.ends_with("leaderElection.retryPeriod")
    };
    let unknown: Vec<&String> =
        there.iter().filter(|path| !places.leaves.contains_key(*path) && !places.closed.contains(*path)).collect();
    ensure!(unknown.is_empty(), "in values.yaml, and not in the schema: {unknown:?}");
    let leaves = places.leaves.keys().filter(|path| !places.is_old(path) && !is_optional(path));
    let missing: Vec<&String> = leaves.filter(|path| !there.contains(*path)).collect();
    ensure!(missing.is_empty(), "in the schema, and not in values.yaml: {missing:?}");
    Ok(())
}

#[test]
fn schema_contains_every_value_of_the_reference_chart() -> anyhow::Result<()> {
    let schema = schema()?;
    let places = Places::of(&schema);
    let known = |path: &&str| {
        let inside = |known: &String| known == path || known.starts_with(&format!("{path}."));
        places.leaves.keys().chain(&places.closed).any(inside)
    };
    let missing: Vec<&str> = include_str!("reference-keys.txt").lines().filter(|path| !known(path)).collect();
    ensure!(missing.is_empty(), "{missing:?}");
    Ok(())
}

#[test]
fn every_chart_value_is_set_in_a_test_case() -> anyhow::Result<()> {
    let schema = schema()?;
    let places = Places::of(&schema);
    let mut set = BTreeSet::new();
    for case in crate::cases::written()?.iter().filter(|case| case.refused.is_none()) {
        set.extend(places.set_in(&values_of(case)?));
    }
    ensure!(never_set(&places, &set).is_empty(), "no case sets {:?}", never_set(&places, &set));
    Ok(())
}

/// The files of `corpus/` alone set every value, too.
#[test]
fn corpus_files_set_every_chart_value() -> anyhow::Result<()> {
    let schema = schema()?;
    let places = Places::of(&schema);
    let files = crate::cases::deployments()?;
    ensure!(files.len() >= 40, "{} files", files.len());
    let mut set = BTreeSet::new();
    for case in files.iter().filter(|case| case.refused.is_none()) {
        set.extend(places.set_in(&values_of(case)?));
    }
    ensure!(never_set(&places, &set).is_empty(), "no file sets {:?}", never_set(&places, &set));
    Ok(())
}

/// Returns the values that are not in `set`, and are not keys of earlier charts.
fn never_set<'a>(places: &'a Places, set: &BTreeSet<String>) -> Vec<&'a String> {
    let leaves = places.leaves.keys().filter(|path| !places.is_old(path));
    leaves.filter(|path| !set.contains(*path)).collect()
}

#[tokio::test]
async fn every_old_key_and_template_error_has_a_test_case() -> anyhow::Result<()> {
    let schema = schema()?;
    let places = Places::of(&schema);
    let refused: Vec<&Outcome> = corpus().await?.iter().filter(|outcome| outcome.case.refused.is_some()).collect();
    let mut set = BTreeSet::new();
    for outcome in &refused {
        set.extend(places.set_in(&values_of(&outcome.case)?));
    }
    let untried: Vec<&String> =
        places.leaves.keys().filter(|path| places.is_old(path) && !set.contains(*path)).collect();
    ensure!(untried.is_empty(), "no case is refused for {untried:?}");
    let texts: Vec<&str> = refused.iter().map(|outcome| outcome.text.as_str()).collect();
    let messages = messages()?;
    ensure!(messages.len() > 10, "{messages:?}");
    // A test with a cluster checks the message about Windows nodes that another image serves.
    let needs_cluster = |message: &str| message.starts_with("node.enableWindows: the image");
    let unseen: Vec<&String> = messages
        .iter()
        .filter(|message| !needs_cluster(message) && !texts.iter().any(|text| says(text, message)))
        .collect();
    ensure!(unseen.is_empty(), "no case is refused with {unseen:?}");
    Ok(())
}

/// Returns the messages of the templates that refuse values, with their placeholders. A message is a line that does not
/// begin with a template expression, or that begins with the path of a value in one.
fn messages() -> anyhow::Result<Vec<String>> {
    let mut messages = Vec::new();
    for file in ["_problems.tpl", "_old_keys.tpl"] {
        let text = std::fs::read_to_string(chart().join("templates").join(file))?;
        let is_message = |line: &&str| line.contains("; ") && !line.starts_with("{{-") && !line.starts_with("{{/*");
        // The comment at the top has sentences, too.
        messages.extend(text.lines().skip_while(|line| !line.contains("define")).filter(is_message).map(str::to_owned));
    }
    Ok(messages)
}

/// Returns whether a line of a text is a message, in which any text may replace the placeholders.
fn says(text: &str, message: &str) -> bool {
    let mut pieces = Vec::new();
    for part in message.split("{{") {
        pieces.push(part.split_once("}}").map_or(part, |(_, after)| after));
    }
    text.lines().any(|line| {
        let mut rest = line;
        pieces.iter().all(|piece| match rest.find(piece) {
            Some(at) => {
                rest = &rest[at + piece.len()..];
                true
            }
            None => false,
        })
    })
}

/// One message lists all problems, whatever kind they are of.
#[tokio::test]
async fn one_error_lists_problems_of_every_kind() -> anyhow::Result<()> {
    let values = json!({
        "fips": true,
        "region": "us-west-2",
        "image": { "repository": "" },
        "controller": { "serviceAccount": { "automountServiceAccountToken": false }, "region": "Paris" },
        "node": { "metadataSources": "imds,dns" },
        "sidecars": { "attacher": null, "resizer": { "leaderElection": { "enabled": false } } },
        "storageClasses": [{ "parameters": { "type": "gp3" } }],
    });
    let all = refusal(&values).await?;
    for path in [
        "sidecars.attacher",
        "region",
        "fips",
        "image.repository",
        "controller.serviceAccount.automountServiceAccountToken",
        "sidecars.resizer.leaderElection",
        "controller.region",
        "node.metadataSources",
        "storageClasses[0]",
    ] {
        let lines = all.lines().filter(|line| line.trim_start().starts_with(&format!("- {path}: "))).count();
        ensure!(lines == 1, "{lines} lines for {path}: {all}");
    }
    Ok(())
}

/// The error names the path of the invalid value.
#[tokio::test]
async fn error_names_the_path_of_an_invalid_value_or_unknown_key() -> anyhow::Result<()> {
    let schema = schema()?;
    let places = Places::of(&schema);
    let typed = places.leaves.iter().filter(|(_, part)| part.get("type").is_some());
    let wrong: Vec<(&str, Value)> = typed.clone().map(|(path, part)| (path.as_str(), of_wrong_type(part))).collect();
    let bounded: Vec<(&str, Value)> =
        typed.filter_map(|(path, part)| Some((path.as_str(), out_of_bounds(part)?))).collect();
    ensure!(wrong.len() > 150 && bounded.len() > 20, "{} types, {} bounds", wrong.len(), bounded.len());
    for values in [wrong, bounded] {
        let all = refusal(&document(values.iter().cloned())).await?;
        let silent = |(path, _): &&(&str, Value)| !all.contains(&format!("at '/{}", path.replace('.', "/")));
        let silent: Vec<_> = values.iter().filter(silent).collect();
        ensure!(silent.is_empty(), "not refused: {silent:?}\n{all}");
    }
    let typos: Vec<String> = places.closed.iter().map(|path| joined(path, "typo")).collect();
    let all = refusal(&document(typos.iter().map(|path| (path.as_str(), json!(1))))).await?;
    for path in &places.closed {
        let path = if path.is_empty() { String::new() } else { format!("/{}", path.replace('.', "/")) };
        let line = format!("at '{path}': additional properties 'typo' not allowed");
        ensure!(all.contains(&line), "no {line:?} in {all}");
    }
    Ok(())
}

async fn refusal(values: &Value) -> anyhow::Result<String> {
    let case = Case { title: "wrong".to_owned(), values: values.to_string(), ..Case::default() };
    let (code, text) = render(&case).await?;
    ensure!(code == Some(1), "{values} is taken");
    Ok(text)
}

/// Returns a value of a type that this part of the schema does not allow.
fn of_wrong_type(part: &Value) -> Value {
    let allows = |wanted: &str| match &part["type"] {
        Value::Array(types) => types.iter().any(|each| each == wanted),
        one => one == wanted,
    };
    if allows("boolean") || allows("object") { json!("wrong") } else { json!(true) }
}

/// Returns a value of the right type that this part of the schema forbids, or `None` if it forbids no value of that
/// type.
fn out_of_bounds(part: &Value) -> Option<Value> {
    if let Some(least) = part["minimum"].as_i64() {
        return Some(json!(least - 1));
    }
    if part.get("enum").is_some() || part.get("pattern").is_some() {
        return Some(json!("no such word"));
    }
    let longest = part["additionalProperties"]["maxLength"].as_u64()?;
    Some(json!({ "key": "v".repeat(usize::try_from(longest).ok()? + 1) }))
}

/// Returns the paths of the values that the chart requires.
fn needed() -> Vec<String> {
    let parts = ["image", "helmTester", "controller", "node", "sidecars", "defaultStorageClass", "image.repository"];
    let of_metrics = ["metrics", "metrics.prometheusRule", "metrics.dashboard"];
    let of_controller = ["volumeModificationFeature", "serviceMonitor", "serviceAccount", "serviceAccount.name"];
    let of_node = ["serviceMonitor", "serviceAccount", "serviceAccount.name", "kubeletPath"];
    let of_sidecar = ["image", "image.repository", "image.tag"];
    let mut paths: Vec<String> = parts.iter().chain(&of_metrics).map(|path| (*path).to_owned()).collect();
    paths.extend(of_controller.map(|path| format!("controller.{path}")));
    paths.extend(of_node.map(|path| format!("node.{path}")));
    paths.extend(SIDECARS.map(|name| format!("sidecars.{name}")));
    let with_image = SIDECARS.iter().filter(|name| !["metadataLabeler", "livenessProbe"].contains(name));
    paths.extend(with_image.flat_map(|name| of_sidecar.map(|path| format!("sidecars.{name}.{path}"))));
    paths
}

/// If a required value is null, Helm's error names its path. If all of them are null, one error names all of them.
#[tokio::test]
async fn error_names_the_path_of_a_required_value_that_is_null() -> anyhow::Result<()> {
    let paths = needed();
    let maps = ["image", "helmTester", "metrics", "controller", "node", "sidecars", "defaultStorageClass"];
    let all = refusal(&document(maps.map(|path| (path, Value::Null)).into_iter())).await?;
    let named = |path: &str| all.contains(&format!("  - {path}: "));
    all_pass(paths.iter().map(|path| {
        let found = if named(path) { Ok(()) } else { Err(anyhow::anyhow!("not refused in {all}")) };
        (path.clone(), found)
    }))
}

/// If all relevant values are set, the rendered chart does not depend on the APIs that Helm discovers. It uses volume
/// attributes classes from Kubernetes 1.34 on, whatever Helm discovers.
#[tokio::test]
async fn explicit_values_render_the_same_without_api_discovery() -> anyhow::Result<()> {
    let apis = [
        "snapshot.storage.k8s.io/v1",
        "storage.k8s.io/v1/VolumeAttributesClass",
        "monitoring.coreos.com/v1/ServiceMonitor",
    ];
    let monitors = json!({ "enableMetrics": true, "serviceMonitor": { "forceEnable": true } });
    let values = json!({
        "controller": monitors,
        "node": monitors,
        "sidecars": { "snapshotter": { "forceEnable": true } },
        "volumeSnapshotClasses": [{ "name": "s", "deletionPolicy": "Delete" }],
    });
    let blind = Case { values: values.to_string(), ..Case::default() };
    let seeing = Case { values: values.to_string(), apis: apis.map(str::to_owned).into(), ..Case::default() };
    let (blind, seeing) = (render(&blind).await?, render(&seeing).await?);
    ensure!(blind.0 == Some(0) && blind == seeing, "without discovery:\n{}\nwith it:\n{}", blind.1, seeing.1);
    Ok(())
}

/// Returns cases that each remove the defaults of one part of the values, and one case that sets every value to an
/// empty value. Helm renders all of them, and the driver accepts their arguments. An API server accepts the objects of
/// the last case only, because objects without their defaults may lack required fields.
pub(crate) fn generated() -> anyhow::Result<Vec<Case>> {
    let (schema, defaults) = (schema()?, defaults()?);
    let needed = needed();
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in with_default(&defaults, "") {
        // Leader election must be on or off.
        let is_election = path.contains(".leaderElection");
        if !needed.contains(&path) && !is_election {
            let part = path.split('.').take(if path.starts_with("sidecars.") { 2 } else { 1 }).collect::<Vec<_>>();
            parts.entry(part.join(".")).or_default().push(path);
        }
    }
    let rounds = parts.values().map(Vec::len).max().unwrap_or_default();
    ensure!(rounds > 20, "{parts:?}");
    let mut cases = Vec::new();
    for round in 0..rounds {
        let nulls: Vec<&String> = parts.values().filter_map(|paths| paths.get(round)).collect();
        let values = document(nulls.iter().map(|path| (path.as_str(), Value::Null)));
        let title = format!("null: {nulls:?}");
        cases.push(Case { title, values: values.to_string(), is_incomplete: true, ..Case::default() });
    }
    let places = Places::of(&schema);
    let empty = places.leaves.iter().filter(|(path, _)| !needed.contains(path) && !places.is_old(path));
    let values = document(empty.filter_map(|(path, part)| Some((path.as_str(), nothing(path, part)?))));
    cases.push(Case { title: "every value is empty".to_owned(), values: values.to_string(), ..Case::default() });
    Ok(cases)
}

/// Returns the paths of all values and maps that are not empty.
fn with_default(values: &Value, path: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (key, value) in values.as_object().into_iter().flatten() {
        let path = joined(path, key);
        let is_empty = [json!(null), json!(false), json!(""), json!([]), json!({})].contains(value);
        if !is_empty {
            paths.push(path.clone());
            paths.extend(with_default(value, &path));
        }
    }
    paths
}

/// Returns `false`, 0 or an empty value of an allowed type, or `None` if the chart gives such a value a special
/// meaning.
fn nothing(path: &str, part: &Value) -> Option<Value> {
    // Some values cannot be empty: the chart requires a replica, a port, a node, a token and leader election, and rejects
    // some values if their counterpart is set too.
    let wanted = [
        "replicaCount",
        "healthPort",
        "minAvailable",
        "volumeAttachLimit",
        "enableLinux",
        "enableWindows",
        "automountServiceAccountToken",
        "leaderElection.enabled",
    ];
    if wanted.iter().any(|end| path.ends_with(end)) || part["enum"].is_array() {
        return None;
    }
    let kind = match &part["type"] {
        Value::Array(types) => types.first()?,
        one => one,
    };
    Some(match kind.as_str()? {
        "boolean" => json!(false),
        "integer" => json!(0),
        "string" => json!(""),
        "array" => json!([]),
        _ => json!({}),
    })
}

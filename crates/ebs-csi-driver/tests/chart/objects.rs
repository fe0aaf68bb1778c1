//! Rendered objects and queries about them.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// All objects that Helm rendered.
pub(crate) struct Rendered(Vec<Value>);

/// The expected content of a field.
#[derive(Debug)]
pub(crate) enum Check {
    Is(Value),
    /// The field is a list that contains this item, or a text that contains this text.
    Has(Value),
    Lacks(Value),
    Absent,
    Exists,
}

/// A container with the driver's image.
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    /// Variables with a literal value in the pod. Variables that Kubernetes fills from other objects are left out.
    pub(crate) env: BTreeMap<String, String>,
}

impl Check {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let (verb, value) = text.split_once(' ').unwrap_or((text, ""));
        let json = || serde_json::from_str(value).with_context(|| format!("{value:?} is not JSON"));
        Ok(match verb {
            "=" => Self::Is(json()?),
            "has" => Self::Has(json()?),
            "lacks" => Self::Lacks(json()?),
            "absent" => Self::Absent,
            "exists" => Self::Exists,
            _ => bail!("{verb:?} must be one of =, has, lacks, absent, exists"),
        })
    }
}

impl Rendered {
    /// Parses the objects that Helm rendered.
    ///
    /// # Errors
    /// The YAML is invalid, or has a duplicate object or a duplicate key in a map.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|error| anyhow::anyhow!("not YAML: {error}"))?;
        let rendered = Self(objects.into_iter().filter(|object| !object.is_null()).collect());
        let mut names: Vec<String> = rendered.0.iter().map(id).collect();
        names.sort();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        ensure!(twice.is_none(), "{twice:?} is there twice");
        Ok(rendered)
    }

    fn object(&self, kind_and_name: &str) -> Option<&Value> {
        self.0.iter().find(|object| id(object) == kind_and_name)
    }

    pub(crate) fn expect(&self, object: &str, path: &str, check: &Check) -> anyhow::Result<()> {
        let found = match (self.object(object), path) {
            (found, ".") => found,
            (None, _) => bail!("there is no {object}"),
            (Some(object), path) => at(object, path),
        };
        let fine = match (check, found) {
            (Check::Absent, found) => found.is_none_or(Value::is_null),
            (Check::Exists, found) => found.is_some(),
            (Check::Is(value), Some(found)) => found == value,
            (Check::Has(value), Some(found)) => holds(found, value),
            (Check::Lacks(value), Some(found)) => !holds(found, value),
            (Check::Lacks(_), None) => true,
            (Check::Is(_) | Check::Has(_), None) => false,
        };
        ensure!(fine, "{object} {path}: {check:?}, but it is {}", found.map_or("absent".to_owned(), Value::to_string));
        Ok(())
    }

    pub(crate) fn all(&self) -> &[Value] {
        &self.0
    }

    /// Returns the driver's containers, with `$(NAME)` replaced as the kubelet does.
    pub(crate) fn driver_containers(&self) -> anyhow::Result<Vec<Container>> {
        let pods = self.0.iter().filter_map(|object| at(object, "spec.template.spec.containers")?.as_array());
        let ours = pods.flatten().filter(|container| {
            let image = container["image"].as_str().unwrap_or_default();
            image.rsplit('/').next().is_some_and(|name| name.starts_with("aws-ebs-csi-driver:"))
        });
        // Skip the containers of Windows nodes: only the Windows driver accepts Windows paths and flags.
        ours.filter(|container| !container.to_string().contains("windows") && !container.to_string().contains("C:"))
            .map(container)
            .collect()
    }
}

fn container(container: &Value) -> anyhow::Result<Container> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut env: BTreeMap<String, String> = BTreeMap::new();
    for variable in container["env"].as_array().into_iter().flatten() {
        if let Some(value) = text(&variable["value"]) {
            env.insert(text(&variable["name"]).context("a variable without a name")?, value);
        }
    }
    let expand = |arg: &Value| {
        let arg = text(arg).context("an argument that is no text")?;
        Ok(env.iter().fold(arg, |arg, (name, value)| arg.replace(&format!("$({name})"), value)))
    };
    let args = container["args"].as_array().into_iter().flatten().map(expand).collect::<anyhow::Result<_>>()?;
    let env = env.clone().into_iter().filter(|(name, _)| name != "GODEBUG").collect();
    Ok(Container { name: text(&container["name"]).unwrap_or_default(), args, env })
}

fn id(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// Returns the part of an object at a path. A path has keys separated by dots. `[x]` is the list item whose `name` (or
/// `key`) is x, or its index. `~` stands for a dot within a key.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut found = object;
    for step in path.replace('[', ".[").split('.').filter(|step| !step.is_empty()) {
        let step = step.replace('~', ".");
        found = match step.strip_prefix('[').and_then(|step| step.strip_suffix(']')) {
            Some(item) => match item.parse::<usize>() {
                Ok(place) => found.get(place)?,
                Err(_) => found.as_array()?.iter().find(|each| each["name"] == item || each["key"] == item)?,
            },
            None => found.get(step)?,
        };
    }
    Some(found)
}

fn holds(found: &Value, value: &Value) -> bool {
    match (found, value) {
        (Value::Array(items), value) => items.contains(value),
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Object(map), Value::Object(part)) => part.iter().all(|(key, value)| map.get(key) == Some(value)),
        _ => false,
    }
}

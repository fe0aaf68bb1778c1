//! Checks that the chart has all values that the documents name.

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::blocks::pages;
use crate::text_of;

/// Prefixes of chart values. A text that names a value by its full path begins with one of them.
const ROOTS: [&str; 6] = ["controller.", "node.", "sidecars.", "image.", "defaultStorageClass.", "awsAccessSecret."];

/// Returns the values that a text names in backticks, like `controller.region` and `node.selinux=true`.
fn named(text: &str) -> Vec<&str> {
    let codes = text.split('`').skip(1).step_by(2).filter_map(|code| code.split(['=', ' ']).next());
    let is_path = |code: &&str| {
        ROOTS.iter().any(|root| code.starts_with(root))
            && code.chars().all(|c| c.is_ascii_alphanumeric() || "_.*".contains(c))
            // Skip file names, which have the same form as values.
            && ![".md", ".rs", ".yaml", ".tpl"].iter().any(|extension| code.ends_with(extension))
    };
    codes.filter(is_path).collect()
}

/// Returns whether the values have this key. `*` in the path stands for any key, and an empty map or null may have any
/// key.
fn has(values: &Value, path: &[&str]) -> bool {
    let [key, rest @ ..] = path else { return true };
    match values {
        Value::Null => true,
        Value::Object(map) if map.is_empty() => true,
        Value::Object(map) if *key == "*" => map.values().any(|value| has(value, rest)),
        Value::Object(map) => map.get(*key).is_some_and(|value| has(value, rest)),
        _ => false,
    }
}

/// Returns whether the schema allows the key. The schema must not use references.
fn allows(schema: &Value, path: &[&str]) -> bool {
    let [key, rest @ ..] = path else { return true };
    schema["properties"].get(*key).is_some_and(|below| allows(below, rest))
}

/// Looks up each value in `values.yaml`, or in the schema if the value has no default.
#[test]
fn every_chart_value_in_documents_exists() -> anyhow::Result<()> {
    let values: Value = serde_saphyr::from_str(&text_of("charts/aws-ebs-csi-driver/values.yaml")?)?;
    let schema: Value = serde_json::from_str(&text_of("charts/aws-ebs-csi-driver/values.schema.json")?)?;
    let mut count = 0;
    for page in pages()? {
        for name in named(&text_of(&page.path)?) {
            count += 1;
            let path: Vec<&str> = name.split('.').collect();
            ensure!(has(&values, &path) || allows(&schema, &path), "{}: the chart has no value {name}", page.path);
        }
    }
    ensure!(count >= 20, "{count} values are named");
    let some = named("`controller.region` `node.kubernetes.io/x` `node.md` `image.tag=v1` `controller.noSuchValue`");
    ensure!(some == ["controller.region", "image.tag", "controller.noSuchValue"], "{some:?}");
    let missing = some.last().context("one")?.split('.').collect::<Vec<_>>();
    ensure!(!has(&values, &missing) && !allows(&schema, &missing), "{missing:?} is found");
    Ok(())
}

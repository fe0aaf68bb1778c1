//! Checks `deploy/monitoring` with promtool and against `docs/metrics.md`, which is generated from the code.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::tool;
use serde_json::Value;

use crate::blocks::pages;
use crate::promql::{grouped_by, selected, templated};
use crate::{program, repository, text_of};

const RULES: &str = "deploy/monitoring/alerts.yaml";
const TESTS: &str = "deploy/monitoring/alerts.test.yaml";
const DASHBOARD: &str = "deploy/monitoring/dashboard.json";
const BOUND: Duration = Duration::from_secs(600);
/// Prefixes of the driver's metrics.
const PREFIXES: [&str; 2] = ["aws_ebs_csi_", "cloudprovider_aws_"];
/// Labels that Prometheus adds to every series when it scrapes the driver.
const OF_THE_TARGET: [&str; 6] = ["job", "instance", "namespace", "pod", "container", "node"];

/// The driver's metrics, each with its labels.
struct Declared(BTreeMap<String, BTreeSet<String>>);

impl Declared {
    /// Reads the table of `docs/metrics.md`. A test of `ebs-telemetry` compares it with the code.
    fn read() -> anyhow::Result<Self> {
        let mut series = BTreeMap::new();
        for row in text_of("docs/metrics.md")?.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [_, name, kind, _, labels, ..] = cells[..] else { continue };
            let name = name.trim_matches('`').to_owned();
            let labels: BTreeSet<String> =
                labels.split(", ").map(|label| label.trim_matches('`').to_owned()).filter(|l| !l.is_empty()).collect();
            if kind == "histogram" {
                let with_bound = labels.iter().cloned().chain(["le".to_owned()]).collect();
                series.insert(format!("{name}_bucket"), with_bound);
                series.insert(format!("{name}_sum"), labels.clone());
                series.insert(format!("{name}_count"), labels);
            } else {
                series.insert(name, labels);
            }
        }
        ensure!(series.len() >= 40, "{} series in the table of docs/metrics.md", series.len());
        Ok(Self(series))
    }

    /// Checks that each metric and label of an expression exists. Returns the labels that its result may have.
    fn check(&self, expression: &str) -> anyhow::Result<BTreeSet<String>> {
        let mut all: BTreeSet<String> = OF_THE_TARGET.map(str::to_owned).into();
        let selected = selected(expression, &PREFIXES);
        ensure!(!selected.is_empty(), "it names no metric of the driver");
        for metric in selected {
            let labels = self.0.get(&metric.metric).with_context(|| format!("{} is not declared", metric.metric))?;
            let unknown = metric.labels.iter().find(|l| !labels.contains(*l) && !OF_THE_TARGET.contains(&l.as_str()));
            ensure!(unknown.is_none(), "{} has no label {unknown:?}", metric.metric);
            all.extend(labels.iter().cloned());
        }
        let unknown = grouped_by(expression).into_iter().find(|label| !all.contains(label));
        ensure!(unknown.is_none(), "it groups by {unknown:?}, which none of its metrics has");
        Ok(all)
    }

    fn check_texts<'a>(&self, expression: &str, texts: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
        let labels = self.check(expression)?;
        for text in texts {
            let unknown = templated(text).into_iter().find(|label| !labels.contains(label));
            ensure!(unknown.is_none(), "{text:?} names the label {unknown:?}, which none of its metrics has");
        }
        Ok(())
    }
}

/// Returns the alerts of all groups.
fn alerts() -> anyhow::Result<Vec<Value>> {
    let rules: Value = serde_saphyr::from_str(&text_of(RULES)?)?;
    let groups = rules["groups"].as_array().context("groups")?;
    let alerts: Vec<Value> = groups.iter().flat_map(|g| g["rules"].as_array().cloned().unwrap_or_default()).collect();
    ensure!(alerts.len() >= 12, "{} alerts", alerts.len());
    Ok(alerts)
}

/// Returns the dashboard's queries: the panel, the expression as Prometheus receives it, and the legend.
fn queries(dashboard: &Value) -> anyhow::Result<Vec<(String, String, String)>> {
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().context("panels")? {
        let title = panel["title"].as_str().context("a title")?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            ensure!(target["datasource"]["uid"] == "${datasource}", "{title}: the source of data is the chosen one");
            let expression = target["expr"].as_str().context("an expression")?.replace("$__rate_interval", "5m");
            queries.push((
                title.to_owned(),
                expression,
                target["legendFormat"].as_str().unwrap_or_default().to_owned(),
            ));
        }
    }
    ensure!(queries.len() >= 30, "{} queries", queries.len());
    Ok(queries)
}

async fn promtool(args: &[&str]) -> anyhow::Result<String> {
    let promtool = program("EBS_TEST_PROMTOOL")?;
    let said = tool(promtool.to_str().context("a path")?, args, BOUND).await?;
    ensure!(said.contains("SUCCESS"), "{said}");
    Ok(said)
}

/// Lets promtool parse each expression as a rule.
async fn check_expressions(expressions: impl Iterator<Item = &str>) -> anyhow::Result<()> {
    let rules: Vec<Value> = expressions
        .enumerate()
        .map(|(n, expression)| serde_json::json!({ "record": format!("query:{n}"), "expr": expression }))
        .collect();
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("queries.yaml");
    // promtool reads YAML, and JSON is valid YAML.
    let groups = serde_json::json!({ "groups": [{ "name": "queries", "rules": rules }] });
    std::fs::write(&file, groups.to_string())?;
    let said = promtool(&["check", "rules", file.to_str().context("a path")?]).await?;
    ensure!(said.contains(&format!("{} rules found", rules.len())), "{said}");
    Ok(())
}

/// promtool accepts the alerts as rules. In its test case in `alerts.test.yaml`, each alert fires, but not before the
/// expected time.
#[tokio::test]
async fn each_alert_fires_in_its_test_case_and_not_earlier() -> anyhow::Result<()> {
    let path = |file: &str| repository().join(file).display().to_string();
    promtool(&["check", "rules", &path(RULES)]).await?;
    promtool(&["test", "rules", &path(TESTS)]).await?;
    let cases: Value = serde_saphyr::from_str(&text_of(TESTS)?)?;
    let cases = cases["tests"].as_array().context("tests")?.iter();
    let cases: Vec<&Value> = cases.flat_map(|test| test["alert_rule_test"].as_array().into_iter().flatten()).collect();
    for alert in alerts()? {
        let name = &alert["alert"];
        let of_it = || cases.iter().filter(move |case| case["alertname"] == *name);
        let fires = |case: &&&Value| case["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty());
        ensure!(of_it().any(|case| fires(&case)), "{} fires in no case", alert["alert"]);
        ensure!(of_it().any(|case| !fires(&case)), "{} has no case in which it does not fire", alert["alert"]);
        for key in ["summary", "description", "runbook_url"] {
            ensure!(alert["annotations"][key].is_string(), "{} has no {key}", alert["alert"]);
        }
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        ensure!(["critical", "warning", "info"].contains(&severity), "{}: severity {severity:?}", alert["alert"]);
    }
    Ok(())
}

/// The alerts, their test cases, and the panels and variables of the dashboard use only declared names.
#[test]
fn alerts_and_dashboard_use_only_declared_metrics_and_labels() -> anyhow::Result<()> {
    let declared = Declared::read()?;
    for alert in alerts()? {
        let name = alert["alert"].as_str().context("a name")?;
        let texts = alert["annotations"].as_object().context("annotations")?.values().filter_map(Value::as_str);
        declared.check_texts(alert["expr"].as_str().context("expr")?, texts).with_context(|| name.to_owned())?;
    }
    let cases: Value = serde_saphyr::from_str(&text_of(TESTS)?)?;
    for test in cases["tests"].as_array().context("tests")? {
        for series in test["input_series"].as_array().context("series")? {
            declared.check(series["series"].as_str().context("a series")?).with_context(|| series.to_string())?;
        }
    }
    let dashboard: Value = serde_json::from_str(&text_of(DASHBOARD)?)?;
    for (title, expression, legend) in queries(&dashboard)? {
        declared
            .check_texts(&expression, [legend.as_str()].into_iter())
            .with_context(|| format!("{title}: {expression}"))?;
    }
    for choice in dashboard["templating"]["list"].as_array().context("choices")?.iter().filter(|c| c["type"] == "query")
    {
        let query = choice["definition"].as_str().context("a query")?;
        let inside =
            query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).context("label_values")?;
        let (series, label) = inside.rsplit_once(", ").context("a series and a label")?;
        let labels = declared.check(series).with_context(|| query.to_owned())?;
        ensure!(labels.contains(label), "{query}: no such label");
    }
    Ok(())
}

/// Prometheus' own parser accepts every query. Panels have unique ids, and their variables are declared.
#[tokio::test]
async fn every_dashboard_query_is_valid_promql() -> anyhow::Result<()> {
    let dashboard: Value = serde_json::from_str(&text_of(DASHBOARD)?)?;
    let queries = queries(&dashboard)?;
    check_expressions(queries.iter().map(|(_, expression, _)| expression.as_str())).await?;

    let choices: Vec<&str> =
        dashboard["templating"]["list"].as_array().into_iter().flatten().filter_map(|c| c["name"].as_str()).collect();
    for (title, expression, _) in &queries {
        let named = expression.split('$').skip(1).map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_'));
        let unknown = named.filter_map(|mut words| words.next()).find(|name| !choices.contains(name));
        ensure!(unknown.is_none(), "{title}: it uses ${unknown:?}, which is not a variable of the dashboard");
    }
    let panels = dashboard["panels"].as_array().context("panels")?;
    let ids: BTreeSet<String> = panels.iter().map(|panel| panel["id"].to_string()).collect();
    ensure!(ids.len() == panels.len(), "panels share an id");
    Ok(())
}

/// Each block of the language `promql` in the documents is one query. It uses only declared metrics and labels.
#[tokio::test]
async fn every_query_in_the_documents_is_valid_promql() -> anyhow::Result<()> {
    let declared = Declared::read()?;
    let pages = pages()?;
    let queries: Vec<_> = pages
        .iter()
        .flat_map(|page| page.blocks.iter().map(move |block| (&page.path, block)))
        .filter(|(_, block)| block.language == "promql")
        .collect();
    ensure!(queries.len() >= 5, "{} queries", queries.len());
    for (path, block) in &queries {
        declared.check(&block.text).with_context(|| format!("{path}:{}", block.line))?;
    }
    check_expressions(queries.iter().map(|(_, block)| block.text.trim())).await
}

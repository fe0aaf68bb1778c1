//! The Helm chart, rendered by Helm itself over a corpus of values (`cases.txt`), asserted as parsed objects; and the
//! driver, which must take the arguments of every container that the chart gives it (`deployment.md` 1 to 13, 20).

mod cases;
mod objects;
mod on_a_cluster;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::{Process, ProcessSpec};
use tokio::task::JoinSet;

use cases::{Case, Expectation};
use objects::Rendered;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const BOUND: Duration = Duration::from_secs(120);
/// Processes of Helm at once.
const AT_ONCE: usize = 4;

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/aws-ebs-csi-driver")
}

/// Runs a program to its end: its exit code, and all that it wrote.
async fn run(program: PathBuf, args: Vec<OsString>, env: BTreeMap<String, String>) -> anyhow::Result<(Option<i32>, String)> {
    let dir = tempfile::tempdir()?;
    let name = program.display().to_string();
    let mut process = Process::spawn(ProcessSpec { name, program, args, env, log: dir.path().join("log") })?;
    let status = process.wait(BOUND).await?;
    Ok((status.code(), process.output()?))
}

/// Helm's exit code and all that it wrote: the objects, or why not.
async fn render(case: &Case) -> anyhow::Result<(Option<i32>, String)> {
    let helm = std::env::var("EBS_TEST_HELM").context("EBS_TEST_HELM names no helm: eval \"$(scripts/setup test)\"")?;
    let dir = tempfile::tempdir()?;
    let values = dir.path().join("values.yaml");
    std::fs::write(&values, &case.values)?;
    let mut args: Vec<OsString> = ["template", case.release(), "-n", "kube-system", "--kube-version", case.kubernetes()]
        .map(OsString::from)
        .to_vec();
    args.push(chart().into());
    args.extend(["-f".into(), values.into_os_string()]);
    for api in &case.apis {
        args.extend(["--api-versions".into(), api.into()]);
    }
    let home = dir.path().display().to_string();
    run(helm.into(), args, BTreeMap::from([("HOME".to_owned(), home)])).await
}

/// Every case of the corpus, checked by `check`; all failures together.
async fn for_each_case<F, R>(check: F) -> anyhow::Result<()>
where
    F: Fn(Case, Option<i32>, String) -> R + Copy + Send + Sync + 'static,
    R: Future<Output = anyhow::Result<()>> + Send,
{
    let mut cases = cases::all()?.into_iter();
    let mut running = JoinSet::new();
    let mut failures = Vec::new();
    loop {
        while running.len() < AT_ONCE && let Some(case) = cases.next() {
            running.spawn(async move {
                let title = case.title.clone();
                let (code, text) = render(&case).await?;
                check(case, code, text).await.with_context(|| format!("case {title:?}"))
            });
        }
        let Some(ended) = running.join_next().await else { break };
        if let Err(error) = ended? {
            failures.push(format!("{error:#}"));
        }
    }
    ensure!(failures.is_empty(), "{} cases:\n{}", failures.len(), failures.join("\n"));
    Ok(())
}

async fn expect(case: Case, code: Option<i32>, text: String) -> anyhow::Result<()> {
    if let Some(message) = &case.refused {
        ensure!(code == Some(1) && text.contains(message.as_str()), "expected a refusal with {message:?}, got {code:?}: {text}");
        return Ok(());
    }
    ensure!(code == Some(0), "helm failed: {text}");
    let rendered = Rendered::parse(&text)?;
    for Expectation { line, object, path, check } in &case.expectations {
        rendered.expect(object, path, check).with_context(|| format!("line {line}"))?;
    }
    Ok(())
}

/// Values render the objects that cases.txt says, and values of earlier charts, contradictions and unknown keys are refused by name.
///
/// Rule: deployment.md 3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7, 3.8; D-42, D-70
///
/// Objects, their names, labels, conditions, containers, ports and rights are those of the reference's chart.
///
/// Rule: deployment.md 1, 4, 5, 6, 7, 8, 9, 11, 12, 13
#[tokio::test]
async fn values_render_the_objects_of_the_table_or_are_refused_by_name() -> anyhow::Result<()> {
    for_each_case(expect).await
}

/// Chart, image and driver have one version: the workspace's.
///
/// Rule: deployment.md 1 (ours)
#[test]
fn the_chart_has_the_version_of_the_workspace() -> anyhow::Result<()> {
    let text = std::fs::read_to_string(chart().join("Chart.yaml"))?;
    let chart: serde_json::Value = serde_saphyr::from_str(&text)?;
    ensure!(chart["version"] == env!("CARGO_PKG_VERSION") && chart["appVersion"] == chart["version"], "{chart}");
    Ok(())
}

async fn driver_takes_them(case: Case, _code: Option<i32>, text: String) -> anyhow::Result<()> {
    if case.refused.is_some() || case.users_arguments_are_odd {
        return Ok(());
    }
    for container in Rendered::parse(&text)?.driver_containers()? {
        let args = container.args.iter().map(OsString::from).chain(["--version".into()]).collect();
        let (code, wrote) = run(DRIVER.into(), args, container.env.clone()).await?;
        ensure!(code == Some(0), "{} {:?} ended with {code:?}: {wrote}", container.name, container.args);
    }
    Ok(())
}

/// The driver takes the arguments and the environment of each container that the chart starts it in.
///
/// Rule: deployment.md 2
#[tokio::test]
async fn the_driver_takes_the_arguments_of_every_container_of_the_chart() -> anyhow::Result<()> {
    for_each_case(driver_takes_them).await
}

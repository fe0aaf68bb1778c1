//! Tests the Helm chart: Helm renders it for many sets of values (`cases.txt` and the files in `corpus/`), and the tests
//! check the parsed objects. The driver must accept the arguments of each of its containers.

mod admission;
mod cases;
mod facts;
mod from_the_reference;
mod host_process;
mod kustomize;
mod objects;
mod on_a_cluster;
mod umbrella;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::{Process, ProcessSpec};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use cases::{Case, Expectation};
use objects::Rendered;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const BOUND: Duration = Duration::from_secs(120);
/// The one value that every release needs. A case may override it.
const IMAGE: &str = "image: {repository: aws-ebs-csi-driver}";
/// Number of Helm processes that run at once.
const AT_ONCE: usize = 4;

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/aws-ebs-csi-driver")
}

/// Runs a program to its end. Returns its exit code and its complete output.
async fn run(
    program: PathBuf,
    args: Vec<OsString>,
    env: BTreeMap<String, String>,
) -> anyhow::Result<(Option<i32>, String)> {
    let dir = tempfile::tempdir()?;
    let name = program.display().to_string();
    let mut process = Process::spawn(ProcessSpec { name, program, args, env, log: dir.path().join("log") })?;
    let status = process.wait(BOUND).await?;
    Ok((status.code(), process.output()?))
}

/// Renders the chart with Helm. Returns Helm's exit code and its complete output: the objects, or the error.
async fn render(case: &Case) -> anyhow::Result<(Option<i32>, String)> {
    let helm = std::env::var("EBS_TEST_HELM").context("EBS_TEST_HELM names no helm: eval \"$(scripts/setup test)\"")?;
    let dir = tempfile::tempdir()?;
    let values = dir.path().join("values.yaml");
    std::fs::write(&values, &case.values)?;
    let image = dir.path().join("image.yaml");
    std::fs::write(&image, IMAGE)?;
    let mut args: Vec<OsString> =
        ["template", case.release(), "-n", "kube-system", "--kube-version", case.kubernetes()]
            .map(OsString::from)
            .to_vec();
    args.push(chart().into());
    args.extend(["-f".into(), image.into_os_string(), "-f".into(), values.into_os_string()]);
    for api in &case.apis {
        args.extend(["--api-versions".into(), api.into()]);
    }
    let home = dir.path().display().to_string();
    run(helm.into(), args, BTreeMap::from([("HOME".to_owned(), home)])).await
}

/// A case and Helm's result for it.
struct Outcome {
    case: Case,
    code: Option<i32>,
    /// The rendered objects, or the error.
    text: String,
}

impl Outcome {
    fn objects(&self) -> anyhow::Result<Rendered> {
        ensure!(self.code == Some(0), "helm failed: {}", self.text);
        Rendered::parse(&self.text)
    }
}

/// Renders all cases, once for all tests of this process.
async fn corpus() -> anyhow::Result<&'static [Outcome]> {
    static CORPUS: OnceCell<Vec<Outcome>> = OnceCell::const_new();
    CORPUS.get_or_try_init(|| render_all(None)).await.map(Vec::as_slice)
}

/// Renders the cases. If a Kubernetes version is given, renders for that version, and skips the cases that specify
/// their own.
async fn render_all(kubernetes: Option<&str>) -> anyhow::Result<Vec<Outcome>> {
    let cases = cases::all()?.into_iter();
    let mut cases = cases.filter(|case| kubernetes.is_none() || case.kubernetes.is_none()).map(|mut case| {
        case.kubernetes = case.kubernetes.or(kubernetes.map(str::to_owned));
        case
    });
    let mut running = JoinSet::new();
    let mut outcomes = Vec::new();
    loop {
        while running.len() < AT_ONCE
            && let Some(case) = cases.next()
        {
            running.spawn(async move {
                let (code, text) = render(&case).await?;
                anyhow::Ok(Outcome { case, code, text })
            });
        }
        let Some(ended) = running.join_next().await else { return Ok(outcomes) };
        outcomes.push(ended??);
    }
}

/// Reports all failures together, each with its case.
fn all_pass(results: impl Iterator<Item = (String, anyhow::Result<()>)>) -> anyhow::Result<()> {
    let failed = results.filter_map(|(title, result)| Some(format!("case {title:?}: {:#}", result.err()?)));
    let failed: Vec<String> = failed.collect();
    ensure!(failed.is_empty(), "{} cases:\n{}", failed.len(), failed.join("\n"));
    Ok(())
}

fn is_as_expected(Outcome { case, code, text }: &Outcome) -> anyhow::Result<()> {
    if let Some(message) = &case.refused {
        let refused = *code == Some(1) && text.contains(message.as_str());
        ensure!(refused, "expected a refusal with {message:?}, got {code:?}: {text}");
        return Ok(());
    }
    ensure!(*code == Some(0), "helm failed: {text}");
    let rendered = Rendered::parse(text)?;
    for Expectation { line, object, path, check } in &case.expectations {
        rendered.expect(object, path, check).with_context(|| format!("line {line}"))?;
    }
    Ok(())
}

/// The title of each case states the property that the case checks.
#[tokio::test]
async fn values_render_expected_objects_or_are_rejected() -> anyhow::Result<()> {
    all_pass(corpus().await?.iter().map(|outcome| (outcome.case.title.clone(), is_as_expected(outcome))))
}

/// Chart, image and driver have the version of the workspace.
#[test]
fn chart_has_the_workspace_version() -> anyhow::Result<()> {
    let text = std::fs::read_to_string(chart().join("Chart.yaml"))?;
    let chart: serde_json::Value = serde_saphyr::from_str(&text)?;
    ensure!(chart["version"] == env!("CARGO_PKG_VERSION") && chart["appVersion"] == chart["version"], "{chart}");
    Ok(())
}

#[tokio::test]
async fn driver_accepts_arguments_of_every_chart_container() -> anyhow::Result<()> {
    // Most containers are the same in most cases, so check each only once.
    let mut seen = BTreeSet::new();
    let mut results = Vec::new();
    for outcome in corpus().await?.iter().filter(|outcome| outcome.case.refused.is_none()) {
        results.push((outcome.case.title.clone(), driver_takes(outcome, &mut seen).await));
    }
    all_pass(results.into_iter())
}

type Start = (Vec<String>, BTreeMap<String, String>);

async fn driver_takes(outcome: &Outcome, seen: &mut BTreeSet<Start>) -> anyhow::Result<()> {
    for container in outcome.objects()?.driver_containers()? {
        if !seen.insert((container.args.clone(), container.env.clone())) {
            continue;
        }
        // With `--version`, the driver checks all arguments and then only prints its version.
        let args = container.args.iter().map(OsString::from).chain(["--version".into()]).collect();
        let (code, wrote) = run(DRIVER.into(), args, container.env).await?;
        ensure!(code == Some(0), "{} {:?} ended with {code:?}: {wrote}", container.name, container.args);
    }
    Ok(())
}

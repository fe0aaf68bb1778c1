//! The manifests for kustomize, beside the chart that they come from. Needs Helm (`scripts/setup test`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::process::{Process, ProcessSpec};

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");
const BOUND: Duration = Duration::from_secs(120);

/// The manifests of `deploy/kubernetes/base` are what the chart renders.
#[tokio::test]
async fn the_manifests_for_kustomize_are_what_the_chart_renders() -> anyhow::Result<()> {
    let helm = std::env::var("EBS_TEST_HELM").context("EBS_TEST_HELM names no helm: eval \"$(scripts/setup test)\"")?;
    let dir = tempfile::tempdir()?;
    let mut xtask = Process::spawn(ProcessSpec {
        name: "xtask".to_owned(),
        program: PathBuf::from(XTASK),
        args: vec!["kustomize".into(), "--check".into()],
        env: BTreeMap::from([("EBS_TEST_HELM".to_owned(), helm)]),
        log: dir.path().join("log"),
    })?;
    let status = xtask.wait(BOUND).await?;
    ensure!(status.success(), "{}", xtask.output()?);
    Ok(())
}

//! Checks the metrics of the running binary against promtool and `docs/metrics.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::csi_client::{Access, new_volume};
use ebs_testkit::pages::Pages;
use ebs_testkit::process::tool;
use ebs_testkit::world::{World, with_mounts};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
/// Timeout of every wait, long enough for a busy machine.
const BOUND: Duration = Duration::from_secs(120);

/// promtool's complaints about the reference driver's metric names, which cannot change.
const COMPLAINTS: [&str; 1] =
    // The in-tree cloud provider chose this name before Prometheus required the suffix.
    [r#"cloudprovider_aws_api_request_errors counter metrics should have "_total" suffix"#];

fn promtool() -> anyhow::Result<String> {
    std::env::var("EBS_TEST_PROMTOOL").context("EBS_TEST_PROMTOOL is not set; run eval \"$(scripts/setup test)\"")
}

fn metrics_of(page: &str) -> BTreeSet<&str> {
    page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).map(|(name, _)| name).collect()
}

/// Returns the rows of the table in `docs/metrics.md`, which is generated from the code: each metric's name and the
/// page that shows it.
fn declared() -> anyhow::Result<BTreeMap<String, String>> {
    let document = std::fs::read_to_string(DOCUMENT)?;
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    // The table of alerts has fewer columns.
    let rows = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>()).filter(|cells| cells.len() > 5);
    rows.map(|cells| {
        let (name, shown) = (cells.get(1).context("a name")?, cells.get(5).context("where it is shown")?);
        Ok((name.trim_matches('`').to_owned(), (*shown).to_owned()))
    })
    .collect()
}

/// Returns the complaints of `promtool check metrics` about a page, except those in [`COMPLAINTS`].
async fn complaints(dir: &Path, page: &str) -> anyhow::Result<Vec<String>> {
    let file = dir.join("page");
    std::fs::write(&file, page)?;
    let check = format!("'{}' check metrics < '{}' 2>&1; true", promtool()?, file.display());
    let said = tool("/bin/sh", &["-c", &check], BOUND).await?;
    Ok(said.lines().filter(|line| !COMPLAINTS.contains(line)).map(str::to_owned).collect())
}

/// The table declares every metric on a controller's page. promtool parses the page and accepts the names.
#[tokio::test]
async fn promtool_accepts_the_metrics_page_of_a_controller() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("controller").arg("--http-endpoint=127.0.0.1:0");
    let world = world.arg("--deprecated-metrics").start().await?;
    let volume = world.client().create_volume(new_volume("pvc-metrics", 1, &Access::Mount("ext4".to_owned()))).await?;
    world.client().delete_volume(&volume.volume_id).await?;
    world.control().refuse_all("UnauthorizedOperation", 403).await?;
    let refused = new_volume("pvc-refused", 1, &Access::Mount("ext4".to_owned()));
    ensure!(world.client().create_volume(refused).await.is_err(), "EC2 refuses everything");
    world.control().no_faults().await?;
    let page = Pages::of(&world, 1).await?.get("/metrics").await?.1;
    let declared = declared()?;
    let of_node: Vec<&str> = metrics_of(&page)
        .into_iter()
        .filter(|name| declared.get(*name).is_none_or(|shown| shown.starts_with("node")))
        .collect();
    ensure!(of_node.is_empty(), "no metrics of a controller: {of_node:?}");
    for metric in [
        "aws_ebs_csi_build_info",
        "aws_ebs_csi_panics_total",
        "aws_ebs_csi_rpc_requests_total",
        "aws_ebs_csi_rpc_duration_seconds",
        "aws_ebs_csi_api_request_duration_seconds",
        "aws_ebs_csi_api_request_errors_total",
        "aws_ebs_csi_api_requests_total",
        "aws_ebs_csi_ec2_health_check_success",
        "aws_ebs_csi_ec2_collector_scrapes_total",
        "aws_ebs_csi_ec2_collector_duration_seconds",
        "cloudprovider_aws_api_request_duration_seconds",
        "cloudprovider_aws_api_request_errors",
    ] {
        ensure!(metrics_of(&page).contains(metric), "{metric}: {page}");
    }
    let zero = "aws_ebs_csi_api_request_duration_seconds_count{request=\"EnableFastSnapshotRestores\"} 0\n";
    ensure!(page.contains(zero), "{page}");
    let complaints = complaints(world.dir(), &page).await?;
    ensure!(complaints.is_empty(), "{complaints:#?}");
    world.finish().await
}

/// The node has a volume. The table declares every metric on the node's page.
#[test]
fn promtool_accepts_the_metrics_page_of_a_node() {
    with_mounts(|| async {
        let world = World::builder(DRIVER).loop_devices().arg("--http-endpoint=127.0.0.1:0").start().await?;
        let access = Access::Mount("ext4".to_owned());
        let volume = world.client().create_volume(new_volume("pvc-page", 1, &access)).await?;
        let mut volume = world.on_node(volume, &access).await?;
        volume.attach().await?;
        volume.stage().await?;
        let page = Pages::of(&world, 1).await?.get("/metrics").await?.1;
        for metric in ["aws_ebs_csi_nvme_collector_scrapes_total", "aws_ebs_csi_nvme_collector_errors_total"] {
            ensure!(metrics_of(&page).contains(metric), "{metric}: {page}");
        }
        let declared = declared()?;
        let unknown: Vec<&str> = metrics_of(&page).into_iter().filter(|name| !declared.contains_key(*name)).collect();
        ensure!(unknown.is_empty(), "not declared: {unknown:?}");
        let complaints = complaints(world.dir(), &page).await?;
        ensure!(complaints.is_empty(), "{complaints:#?}");
        volume.unstage().await?;
        volume.detach().await?;
        world.client().delete_volume(volume.id()).await?;
        world.finish().await
    });
}

//! Tests the modes of the process without Kubernetes, and the services of each mode.

use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use ebs_testkit::process::{Process, ProcessSpec};
use ebs_testkit::world::World;
use tonic::Code;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const BOUND: Duration = Duration::from_secs(120);

/// The controller needs no metadata when AWS_REGION is set.
#[tokio::test]
async fn controller_mode_serves_no_node_rpc_and_needs_no_metadata() -> anyhow::Result<()> {
    let world = World::builder(DRIVER)
        .mode("controller")
        .env("AWS_REGION", "us-west-2")
        .without_env("AWS_EC2_METADATA_SERVICE_ENDPOINT")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .start()
        .await?;
    ensure!(world.client().probe().await?, "not ready");
    let request = csi::ControllerGetCapabilitiesRequest {};
    let answer = world.client().controller().controller_get_capabilities(request).await?.into_inner();
    ensure!(!answer.capabilities.is_empty(), "a controller without capabilities");
    let status = world.client().node_info().await.err().context("controller mode answered for a node")?;
    ensure!(status.code() == Code::Unimplemented, "{status:?}");
    world.finish().await
}

/// A node service starts even without the permission to mount, because its other calls still work.
#[tokio::test]
async fn node_without_mount_permission_logs_warning() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("node").start_without_driver().await?;
    let spec = world.driver_spec().clone();
    let dropped = ["--bounding-set=-all", "--inh-caps=-all", DRIVER];
    let args = dropped.into_iter().map(Into::into).chain(spec.args.clone()).collect();
    let mut driver = Process::spawn(ProcessSpec { program: "/usr/bin/setpriv".into(), args, ..spec })?;
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    let serving = async {
        while !driver.output()?.contains("serving CSI") {
            tick.tick().await;
            ensure!(driver.ended()?.is_none(), "the driver ended:\n{}", driver.log_tail(20));
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(BOUND, serving).await.context("not serving")??;
    let log = driver.output()?;
    ensure!(log.lines().any(|line| line.starts_with('W') && line.contains("CAP_SYS_ADMIN")), "{log}");
    driver.stop(BOUND).await?;
    world.finish().await
}

/// Node mode needs no AWS credentials.
#[tokio::test]
async fn node_mode_serves_no_controller_rpc_and_never_calls_ec2() -> anyhow::Result<()> {
    let world = World::builder(DRIVER)
        .mode("node")
        .without_env("AWS_ACCESS_KEY_ID")
        .without_env("AWS_SECRET_ACCESS_KEY")
        .start()
        .await?;
    ensure!(world.client().probe().await?, "not ready");
    let info = world.client().node_info().await?;
    let segments = info.accessible_topology.context("a topology")?.segments;
    ensure!(info.node_id == world.driver_spec().env["EBS_SIM_INSTANCE_ID"], "node id {}", info.node_id);
    ensure!(segments.get("topology.kubernetes.io/zone").is_some_and(|zone| zone == "us-west-2a"), "{segments:?}");
    ensure!(info.max_volumes_per_node > 0, "0 volumes would mean no limit");
    let request = csi::ControllerGetCapabilitiesRequest {};
    let status = world.client().controller().controller_get_capabilities(request).await.err();
    let status = status.context("node mode answered for a controller")?;
    ensure!(status.code() == Code::Unimplemented, "{status:?}");
    let calls = world.calls_since(0).await?;
    ensure!(calls.calls.is_empty(), "a node called EC2: {}", calls.summary());
    world.finish().await
}

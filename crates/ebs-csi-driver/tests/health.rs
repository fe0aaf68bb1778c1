//! Tests what operators see of the running binary when EC2 does not respond or rejects the driver.

use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::csi_client::{Access, CsiClient, new_volume};
use ebs_testkit::pages::Pages;
use ebs_testkit::world::World;
use tonic::Code;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
/// Timeout of every wait. While calls fail, the driver checks EC2 every 10 s, and the machine may be busy.
const BOUND: Duration = Duration::from_secs(120);

/// Waits until the metrics satisfy `wanted`.
async fn until_metrics(pages: &Pages, what: &str, wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let mut tick = tokio::time::interval(Duration::from_millis(250));
    let seen = async {
        while !wanted(&pages.get("/metrics").await?.1) {
            tick.tick().await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(BOUND, seen).await.with_context(|| format!("{what}: not so within {BOUND:?}"))?
}

/// Probe still succeeds, because restarts by the kubelet would not end an outage. `/readyz`, the metric and the log
/// report the failure. `/readyz` reports only the kind of failure.
#[tokio::test]
async fn controller_without_ec2_passes_its_probes() -> anyhow::Result<()> {
    let nowhere = World::builder(DRIVER).env("AWS_EC2_ENDPOINT", "http://127.0.0.1:1");
    let strangers = World::builder(DRIVER)
        .access_key("AKIDEXAMPLE000000001", "right-secret")
        .env("AWS_SECRET_ACCESS_KEY", "wrong-secret");
    for (world, cause, answer) in
        [(nowhere, "is unreachable", Code::Unavailable), (strangers, "AuthFailure", Code::Aborted)]
    {
        let mut world = world.mode("controller").arg("--http-endpoint=127.0.0.1:0").start_without_driver().await?;
        world.spawn_driver()?;
        let socket = world.socket().to_owned();
        CsiClient::ready(&socket, world.driver()?, BOUND).await?;
        let pages = Pages::of(&world, 1).await?;
        let failed = |page: &str| {
            page.contains("\naws_ebs_csi_ec2_health_check_success 0\n")
                && page.contains("\naws_ebs_csi_ec2_health_check_failures_total{")
        };
        until_metrics(&pages, "a failure", failed).await?;
        let logged = "health check of EC2 failed";
        world.until_logged(logged, |log| log.lines().any(|line| line.contains(logged) && line.contains(cause))).await?;
        let (status, readyz) = pages.get("/readyz").await?;
        ensure!(status.contains(" 503 ") && readyz.contains("EC2"), "{status} {readyz}");
        ensure!(!readyz.contains("127.0.0.1:1\"") && !readyz.contains("AuthFailure"), "{readyz}");
        ensure!(pages.get("/healthz").await?.0.contains(" 200 "), "alive");
        let refused = world.client().create_volume(new_volume("pvc-1", 1, &Access::Block)).await.err();
        ensure!(refused.as_ref().is_some_and(|status| status.code() == answer), "{refused:?}");
        ensure!(world.client().probe().await?, "{cause}: a restart would not help");
        world.finish().await?;
    }
    Ok(())
}

/// `--health-endpoint` serves `/healthz` alone, beside `--http-endpoint`. A request calls Probe over the socket: it
/// succeeds while Probe does, and fails once the socket is gone, although the process still runs.
#[tokio::test]
async fn health_endpoint_follows_probe_over_the_socket() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("controller").arg("--health-endpoint=127.0.0.1:0");
    let world = world.arg("--http-endpoint=127.0.0.1:0").start().await?;
    let (health, pages) = (Pages::of_health(&world).await?, Pages::of(&world, 1).await?);
    let (status, body) = health.get("/healthz").await?;
    ensure!(status.contains(" 200 ") && body == "ok\n", "{status} {body}");
    let counted = "aws_ebs_csi_rpc_requests_total{code=\"OK\",method=\"Probe\"}";
    ensure!(pages.get("/metrics").await?.1.contains(counted), "the request made no Probe");
    for path in ["/metrics", "/readyz", "/"] {
        let (status, body) = health.get(path).await?;
        ensure!(status.contains(" 404 ") && body.is_empty(), "{path}: {status} {body}");
    }
    std::fs::rename(world.socket(), world.socket().with_extension("away"))?;
    let (status, body) = health.get("/healthz").await?;
    ensure!(status.contains(" 503 ") && body.contains("accepts no connections"), "{status} {body}");
    ensure!(!body.contains('/'), "any client can read the page, so it names no path: {body}");
    ensure!(pages.get("/healthz").await?.0.contains(" 200 "), "that page reports only that the process runs");
    std::fs::rename(world.socket().with_extension("away"), world.socket())?;
    ensure!(health.get("/healthz").await?.0.contains(" 200 "), "the socket is back");
    world.finish().await
}

/// While the driver starts, the health endpoint reports that, like Probe.
#[tokio::test]
async fn health_endpoint_fails_while_the_driver_starts() -> anyhow::Result<()> {
    // The driver waits for this metadata service, which accepts connections and answers nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", silent.local_addr()?);
    let waiting = World::builder(DRIVER).env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &address);
    let mut world = waiting.mode("node").arg("--health-endpoint=127.0.0.1:0").start_without_driver().await?;
    world.spawn_driver()?;
    let health = Pages::of_health(&world).await?;
    let (status, body) = health.get("/healthz").await?;
    ensure!(status.contains(" 503 ") && body.contains("the driver is starting"), "{status} {body}");
    world.finish().await
}

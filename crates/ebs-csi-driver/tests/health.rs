//! What operators see, over the endpoint of the running binary, when EC2 does not respond or rejects the driver, and
//! when volumes are unhealthy.

use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::csi_client::{Access, CsiClient, new_volume};
use ebs_testkit::world::{World, with_mounts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
/// The driver checks EC2 every 10 s while calls fail; the machine may be busy.
const BOUND: Duration = Duration::from_secs(120);

/// The HTTP pages of the driver.
struct Pages(String);

impl Pages {
    /// Returns the pages of a driver that runs with `--http-endpoint=127.0.0.1:0`. Its log has the port.
    async fn of(world: &World) -> anyhow::Result<Self> {
        Self::of_start(world, 1).await
    }

    /// Returns the pages after this number of starts of the driver.
    async fn of_start(world: &World, starts: usize) -> anyhow::Result<Self> {
        let words = "serving /metrics, /healthz and /readyz";
        world.until_logged("the address of the pages", |log| log.matches(words).count() >= starts).await?;
        let log = std::fs::read_to_string(&world.driver_spec().log)?;
        let line = log.lines().rfind(|line| line.contains(words)).context("the line")?;
        let address = line.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
        Ok(Self(address.context("an address")?.trim_matches('"').to_owned()))
    }

    /// Returns status line, headers and body.
    async fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(&self.0).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: driver\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    async fn until(&self, path: &str, what: &str, wanted: impl Fn(&str) -> bool) -> anyhow::Result<String> {
        let mut tick = tokio::time::interval(Duration::from_millis(250));
        let mut last = String::new();
        let seen = async {
            loop {
                tick.tick().await;
                last = self.get(path).await?;
                if wanted(&last) {
                    return anyhow::Ok(());
                }
            }
        };
        let seen = tokio::time::timeout(BOUND, seen).await;
        seen.with_context(|| format!("{what}: not so within {BOUND:?}"))??;
        Ok(last)
    }

    /// Waits until the metric has that value.
    async fn until_healthy(&self, healthy: bool) -> anyhow::Result<String> {
        let line = format!("\naws_ebs_csi_ec2_health_check_success {}\n", u8::from(healthy));
        self.until("/metrics", line.trim(), |page| page.contains(&line)).await
    }
}

/// An outage of EC2, expired credentials and a revoked permission show in a metric, by reason, in `/readyz` and in the
/// log, while Probe stays ready. The failed RPC reports Unavailable, Unauthenticated or PermissionDenied. When EC2
/// responds again, the driver recovers by itself.
#[tokio::test]
async fn ec2_outage_and_lost_permission_show_and_recover() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("controller").arg("--http-endpoint=127.0.0.1:0").start().await?;
    let pages = Pages::of(&world).await?;
    pages.until_healthy(true).await?;
    for (code, status, reason, shown, answer) in [
        ("UnauthorizedOperation", 403, "PermissionDenied", "a permission", Code::PermissionDenied),
        ("RequestExpired", 400, "Unauthenticated", "the credentials", Code::Unauthenticated),
        ("Unavailable", 503, "Unavailable", "unavailable", Code::Unavailable),
    ] {
        world.control().refuse_all(code, status).await?;
        let request = csi_proto::csi::GetSnapshotRequest {
            snapshot_id: "snap-0123456789abcdef0".to_owned(),
            ..Default::default()
        };
        let refused =
            world.client().controller().get_snapshot(request).await.err().context("EC2 refuses everything")?;
        ensure!(refused.code() == answer, "{code}: {refused:?}");
        let page = pages.until_healthy(false).await?;
        let counted = format!("aws_ebs_csi_ec2_health_check_failures_total{{reason=\"{reason}\"}}");
        ensure!(page.contains(&counted), "{code}: {page}");
        let readyz = pages.get("/readyz").await?;
        ensure!(readyz.starts_with("HTTP/1.1 503") && readyz.contains(shown), "{code}: {readyz}");
        let body = readyz.split("\r\n\r\n").nth(1).context("a body")?;
        ensure!(!body.contains(code) && !body.contains("request id"), "{code}: {readyz}");
        let logged = "health check of EC2 failed";
        world.until_logged(logged, |log| log.lines().any(|line| line.contains(logged) && line.contains(code))).await?;
        ensure!(world.client().probe().await?, "{code}: a restart would not help");
        world.control().no_faults().await?;
        pages.until_healthy(true).await?;
        let readyz = pages.get("/readyz").await?;
        ensure!(readyz.starts_with("HTTP/1.1 200"), "{readyz}");
    }
    let volume = world.client().create_volume(new_volume("pvc-after", 1, &Access::Mount("ext4".to_owned()))).await?;
    world.client().delete_volume(&volume.volume_id).await?;
    world.finish().await
}

/// If Probe failed, the kubelet would restart the driver repeatedly, which does not end an outage. `/readyz`, the
/// metric and the log report the failure, and `/readyz` only its kind.
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
        let pages = Pages::of(&world).await?;
        pages
            .until("/metrics", "a failure", |page| {
                page.contains("\naws_ebs_csi_ec2_health_check_success 0\n")
                    && page.contains("\naws_ebs_csi_ec2_health_check_failures_total{")
            })
            .await?;
        let logged = "health check of EC2 failed";
        world.until_logged(logged, |log| log.lines().any(|line| line.contains(logged) && line.contains(cause))).await?;
        let readyz = pages.get("/readyz").await?;
        ensure!(readyz.starts_with("HTTP/1.1 503") && readyz.contains("EC2"), "{readyz}");
        ensure!(!readyz.contains("127.0.0.1:1\"") && !readyz.contains("AuthFailure"), "{readyz}");
        ensure!(pages.get("/healthz").await?.starts_with("HTTP/1.1 200"), "alive");
        let refused = world.client().create_volume(new_volume("pvc-1", 1, &Access::Block)).await.err();
        ensure!(refused.as_ref().is_some_and(|status| status.code() == answer), "{refused:?}");
        ensure!(world.client().probe().await?, "{cause}: a restart would not help");
        world.finish().await?;
    }
    Ok(())
}

/// Returns the name of the device that is mounted at a path.
fn mounted_at(path: &std::path::Path) -> anyhow::Result<String> {
    let table = std::fs::read_to_string("/proc/thread-self/mounts")?;
    let path = path.to_str().context("a path")?;
    let line = table.lines().find(|line| line.split(' ').nth(1) == Some(path)).context("a mount")?;
    let device = line.split(' ').next().and_then(|device| device.strip_prefix("/dev/"));
    Ok(device.context("a device")?.to_owned())
}

/// The kernel has turned the file system of a volume read-only. The metrics and the log also show it after a restart of
/// the driver. They no longer show it when the volume is unstaged and the driver starts again. SIGTERM stops the driver,
/// because SIGKILL may lose the last entry of the register.
#[test]
fn unhealthy_volume_shows_in_metrics_and_log() {
    with_mounts(|| async {
        let endpoint = "--http-endpoint=127.0.0.1:0";
        let mut world = World::builder(DRIVER).loop_devices().arg(endpoint).start().await?;
        let access = Access::Mount("ext4".to_owned());
        let volume = world.client().create_volume(new_volume("pvc-ill", 1, &access)).await?;
        let mut volume = world.on_node(volume, &access).await?;
        volume.attach().await?;
        let mut request = volume.stage_request();
        if let Some(csi_proto::csi::volume_capability::AccessType::Mount(mount)) =
            request.volume_capability.as_mut().and_then(|capability| capability.access_type.as_mut())
        {
            mount.mount_flags.push("errors=remount-ro".to_owned());
        }
        world.client().stage(request).await?;
        let device = mounted_at(&volume.staging)?;
        std::fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "test")?;
        world.stop_driver().await?;
        world.start_driver().await?;
        let pages = Pages::of_start(&world, 2).await?;
        let id = volume.id().to_owned();
        let labels = format!("{{reason=\"ReadOnlyAfterErrors\",status=\"Degraded\",volume_id=\"{id}\"}} 1");
        let series = format!("\naws_ebs_csi_volume_unhealthy{labels}\n");
        pages.until("/metrics", "the volume", |page| page.contains(&series)).await?;
        let said = |log: &str| log.lines().any(|line| line.contains("volume is unhealthy") && line.contains(&id));
        world.until_logged("the volume", said).await?;
        volume.set_client(world.client());
        volume.unstage().await?;
        world.stop_driver().await?;
        world.start_driver().await?;
        let page = Pages::of_start(&world, 3).await?.get("/metrics").await?;
        ensure!(page.contains("\naws_ebs_csi_panics_total 0\n") && !page.contains(&series), "{page}");
        volume.set_client(world.client());
        volume.detach().await?;
        world.client().delete_volume(volume.id()).await?;
        world.finish().await
    });
}

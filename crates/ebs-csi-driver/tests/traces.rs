//! Traces of the running driver, as a third-party collector receives them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use ebs_testkit::collector::{Collector, SpanSeen};
use ebs_testkit::csi_client::{Access, new_volume};
use ebs_testkit::process::{Process, ProcessSpec};
use ebs_testkit::world::{World, WorldBuilder};
use tokio::time::Instant;
use tonic::{Code, Request};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const BOUND: Duration = Duration::from_secs(120);
const CALLER: (&str, &str) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");

fn traced(endpoint: &str) -> WorldBuilder {
    World::builder(DRIVER)
        .mode("controller")
        .arg("--enable-otel-tracing=true")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_BSP_SCHEDULE_DELAY", "100")
}

/// A CreateVolume request of a traced caller.
fn called(name: &str) -> Request<csi::CreateVolumeRequest> {
    let mut request = Request::new(new_volume(name, 1, &Access::Block));
    let (trace, span) = CALLER;
    let metadata = request.metadata_mut();
    metadata.insert("traceparent", format!("00-{trace}-{span}-01").parse().expect("a header"));
    metadata.insert("tracestate", "vendor=canary".parse().expect("a header"));
    request
}

fn children<'a>(spans: &'a [SpanSeen], parent: &SpanSeen) -> Vec<&'a SpanSeen> {
    spans.iter().filter(|span| span.parent == parent.id && span.trace == parent.trace).collect()
}

/// Spans of RPCs have the names and attributes of gRPC servers and are in their callers' traces. Calls to AWS are their
/// children. Resource, headers and compression follow the `OTEL_*` variables.
#[tokio::test]
async fn spans_of_rpcs_and_aws_calls_join_the_caller_trace() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let collector = Collector::start(dir.path(), &[]).await?;
    let world = traced(&format!("http://{}", collector.address))
        .env("OTEL_SERVICE_NAME", "storage")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.version=given")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=disks")
        .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .env("OTEL_PROPAGATORS", "b3")
        .start()
        .await?;
    let volume = world.client().controller().create_volume(called("pvc-traced")).await?.into_inner();
    let volume = volume.volume.context("a volume")?.volume_id;
    let rpc = collector.span("csi.v1.Controller/CreateVolume", ("csi.subject", "pvc-traced")).await?;
    let (trace, parent) = CALLER;
    ensure!(rpc.kind == "SPAN_KIND_SERVER" && rpc.trace == trace && rpc.parent == parent, "{rpc:?}");
    ensure!(rpc.state == "vendor=canary" && !rpc.failed, "{rpc:?}");
    for (name, value) in [
        ("rpc.system", "grpc"),
        ("rpc.service", "csi.v1.Controller"),
        ("rpc.method", "CreateVolume"),
        ("rpc.grpc.status_code", "0"),
    ] {
        ensure!(rpc.attributes.get(name).is_some_and(|found| found == value), "{name}: {rpc:?}");
    }
    collector.span("EC2.CreateVolume", ("rpc.service", "EC2")).await?;
    let messages = collector.messages()?;
    let spans: Vec<SpanSeen> = messages.iter().flat_map(|message| message.spans.clone()).collect();
    let below = children(&spans, &rpc);
    let call = below.iter().find(|span| span.name == "EC2.CreateVolume").with_context(|| format!("{spans:?}"))?;
    ensure!(call.kind == "SPAN_KIND_CLIENT" && !call.failed && call.nanos > 0, "{call:?}");
    ensure!(call.attributes.get("rpc.system").is_some_and(|system| system == "aws-api"), "{call:?}");
    ensure!(call.attributes.get("aws.attempts").is_some_and(|attempts| attempts == "1"), "{call:?}");
    let ledger = world.calls_since(0).await?;
    ensure!(
        !ledger.calls.is_empty() && call.attributes.get("aws.request_id").is_some_and(|id| id.len() > 8),
        "{call:?}"
    );
    let message = messages.first().context("a message")?;
    for (name, value) in [
        ("service.name", "storage"),
        ("deployment.environment", "test"),
        ("service.version", "given"),
        ("os.type", "linux"),
    ] {
        ensure!(message.resource.get(name).is_some_and(|found| found == value), "{name}: {message:?}");
    }
    ensure!(message.resource.contains_key("host.name") && message.resource.contains_key("process.pid"), "{message:?}");
    ensure!(message.headers.get("x-team").is_some_and(|team| team == &["disks"]), "{message:?}");
    let encoded = message.headers.get("grpc-encoding").or_else(|| message.headers.get("grpc-accept-encoding"));
    ensure!(encoded.is_some_and(|encodings| encodings.iter().any(|it| it.contains("gzip"))), "{message:?}");
    world.until_logged("OTEL_PROPAGATORS", |log| log.contains("OTEL_PROPAGATORS has no effect")).await?;
    world.client().delete_volume(&volume).await?;
    world.finish().await
}

/// The span of a rejected RPC has its code. Only server faults mark it as failed, as OpenTelemetry specifies for
/// servers.
#[tokio::test]
async fn span_of_failed_rpc_has_its_code_and_child_has_ec2_code() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let collector = Collector::start(dir.path(), &[]).await?;
    let world = traced(&format!("http://{}", collector.address)).start().await?;
    let snapshot = |id: &str| csi::GetSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() };
    let absent = world.client().controller().get_snapshot(snapshot("snap-0123456789abcdef0")).await;
    ensure!(absent.err().is_some_and(|status| status.code() == Code::NotFound), "it is not there");
    let span = collector.span("csi.v1.Controller/GetSnapshot", ("rpc.grpc.status_code", "5")).await?;
    ensure!(!span.failed, "a client's mistake: {span:?}");
    world.control().refuse_all("Unavailable", 503).await?;
    let refused = world.client().controller().get_snapshot(snapshot("snap-0123456789abcdef1")).await;
    ensure!(refused.err().is_some_and(|status| status.code() == Code::Unavailable), "EC2 refuses everything");
    let span = collector.span("csi.v1.Controller/GetSnapshot", ("rpc.grpc.status_code", "14")).await?;
    ensure!(span.failed && span.message.contains("Unavailable"), "{span:?}");
    let call = collector.span("EC2.DescribeSnapshots", ("error.type", "Unavailable")).await?;
    ensure!(call.failed && call.attributes.contains_key("aws.attempts"), "{call:?}");
    world.control().no_faults().await?;
    world.finish().await
}

/// They are sent even if the export interval has not passed.
#[tokio::test]
async fn last_spans_are_sent_at_shutdown() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let collector = Collector::start(dir.path(), &[]).await?;
    let world =
        traced(&format!("http://{}", collector.address)).env("OTEL_BSP_SCHEDULE_DELAY", "3600000").start().await?;
    world.client().node_info().await.err().context("a controller has no node")?;
    ensure!(collector.messages()?.is_empty(), "they wait an hour");
    world.finish().await?;
    collector.span("csi.v1.Node/NodeGetInfo", ("rpc.grpc.status_code", "12")).await?;
    Ok(())
}

/// A collector that hangs or is unavailable does not slow an RPC. The driver logs it once, and waits for it at shutdown
/// for a bounded time.
#[tokio::test]
async fn hanging_or_absent_collector_is_logged_once() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let hanging = Collector::start(dir.path(), &["-hang"]).await?;
    let absent = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.local_addr()?.to_string()
    };
    for address in [hanging.address.clone(), absent] {
        let world = traced(&format!("http://{address}"))
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")
            .env("OTEL_BSP_MAX_QUEUE_SIZE", "4")
            .start()
            .await?;
        let volume = world.client().create_volume(new_volume("pvc-1", 1, &Access::Block)).await?.volume_id;
        for _ in 0..200 {
            let start = Instant::now();
            world.client().identity().get_plugin_info(csi::GetPluginInfoRequest {}).await?;
            ensure!(start.elapsed() < Duration::from_secs(30), "{address}: {:?}", start.elapsed());
        }
        let said = "failed to export trace spans";
        world.until_logged(said, |log| log.contains(said)).await?;
        world.client().delete_volume(&volume).await?;
        let log = world.driver_spec().log.clone();
        let start = Instant::now();
        let text = || std::fs::read_to_string(&log);
        let seen = text()?;
        world.finish().await?;
        ensure!(start.elapsed() < Duration::from_secs(60), "{address}: {:?}", start.elapsed());
        ensure!(seen.matches(said).count() == 1, "{address}: {seen}");
    }
    Ok(())
}

/// The driver checks the collector's certificate against the given authorities.
#[tokio::test]
async fn collector_over_tls_needs_trusted_certificate() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, pair.cert.pem())?;
    std::fs::write(&key, pair.signing_key.serialize_pem())?;
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path");
    let (cert, key) = (text(&cert)?, text(&key)?);
    let collector = Collector::start(dir.path(), &["-cert", &cert, "-key", &key]).await?;
    let endpoint = format!("https://{}", collector.address);
    let world = traced(&endpoint).start().await?;
    let said = "failed to export trace spans";
    world.until_logged(said, |log| log.contains(said)).await?;
    ensure!(collector.messages()?.is_empty(), "nobody vouches for it");
    world.finish().await?;
    let world = traced(&endpoint).env("OTEL_EXPORTER_OTLP_CERTIFICATE", &cert).start().await?;
    world.client().identity().get_plugin_info(csi::GetPluginInfoRequest {}).await?;
    collector.span("csi.v1.Identity/GetPluginInfo", ("rpc.grpc.status_code", "0")).await?;
    world.finish().await
}

/// Without the flag nothing is exported, whatever the variables are set to. With it, nothing is exported when the SDK
/// is disabled.
#[tokio::test]
async fn nothing_is_exported_without_the_flag() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let collector = Collector::start(dir.path(), &[]).await?;
    let endpoint = format!("http://{}", collector.address);
    let off = World::builder(DRIVER).mode("controller").env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    for world in [off, traced(&endpoint).env("OTEL_SDK_DISABLED", "true")] {
        let world = world.env("OTEL_BSP_SCHEDULE_DELAY", "1").start().await?;
        let volume = world.client().create_volume(new_volume("pvc-1", 1, &Access::Block)).await?.volume_id;
        world.client().delete_volume(&volume).await?;
        world.finish().await?;
    }
    ensure!(collector.messages()?.is_empty(), "{:?}", collector.messages());
    Ok(())
}

/// The error names the variable and never contains a password.
#[tokio::test]
async fn unusable_exporter_exits_with_1() -> anyhow::Result<()> {
    for (variable, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:canary@127.0.0.1:4317"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://127.0.0.1:4317"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent/canary.pem"),
    ] {
        let dir = tempfile::tempdir()?;
        let socket = format!("--endpoint=unix://{}", dir.path().join("csi.sock").display());
        let mut process = Process::spawn(ProcessSpec {
            name: "driver".to_owned(),
            program: DRIVER.into(),
            args: ["controller", "--enable-otel-tracing", &socket].iter().map(Into::into).collect(),
            env: BTreeMap::from([(variable.to_owned(), value.to_owned()), ("AWS_REGION".into(), "us-west-2".into())]),
            log: dir.path().join("log"),
        })?;
        let status = process.wait(BOUND).await?;
        let said = process.output()?;
        ensure!(status.code() == Some(1), "{variable}: {status}: {said}");
        ensure!(said.contains(variable) || said.contains("OTEL_"), "{variable}: {said}");
        ensure!(!said.contains("user:"), "{said}");
    }
    Ok(())
}

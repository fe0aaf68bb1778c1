//! Tests the traces of the running driver, as a third-party collector receives them.

use std::path::Path;

use anyhow::{Context, ensure};
use csi_proto::csi;
use ebs_testkit::collector::{Collector, SpanSeen};
use ebs_testkit::csi_client::{Access, new_volume};
use ebs_testkit::world::{World, WorldBuilder};
use tonic::Request;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const CALLER: (&str, &str) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");

fn traced(endpoint: &str) -> WorldBuilder {
    World::builder(DRIVER)
        .mode("controller")
        .arg("--enable-otel-tracing=true")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_BSP_SCHEDULE_DELAY", "100")
}

/// Returns a CreateVolume request with the trace context of its caller.
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

/// Spans of RPCs have the names and attributes of gRPC servers and join their callers' traces. Calls to AWS are child
/// spans. The resource, the headers and the compression follow the `OTEL_*` variables.
#[tokio::test]
async fn spans_of_rpcs_and_aws_calls_join_the_trace_of_the_caller() -> anyhow::Result<()> {
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

/// The driver checks the collector's certificate against the configured certificate authorities.
#[tokio::test]
async fn trace_collector_over_tls_needs_a_trusted_certificate() -> anyhow::Result<()> {
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
    ensure!(collector.messages()?.is_empty(), "no authority vouches for it");
    world.finish().await?;
    let world = traced(&endpoint).env("OTEL_EXPORTER_OTLP_CERTIFICATE", &cert).start().await?;
    world.client().identity().get_plugin_info(csi::GetPluginInfoRequest {}).await?;
    collector.span("csi.v1.Identity/GetPluginInfo", ("rpc.grpc.status_code", "0")).await?;
    world.finish().await
}

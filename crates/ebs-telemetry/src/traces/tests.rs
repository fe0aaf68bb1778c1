//! Tests with an exporter that keeps, rejects or delays spans, in place of the collector's client.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::SpanData;
use tokio::time::Instant;
use tracing::field::Empty;

use super::batches::Limits;
use super::*;
use crate::logging::{LogConfig, tests as logging};

const LIMITS: Limits = Limits { queue: 8, batch: 4, delay: Duration::from_secs(5), export: Duration::from_secs(30) };

/// What the test's exporter does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Keep,
    Refuse,
    Hang,
}

/// An exporter that keeps spans, in place of a collector.
#[derive(Debug, Clone)]
struct Kept {
    does: Arc<Mutex<Does>>,
    spans: Arc<Mutex<Vec<SpanData>>>,
}

impl opentelemetry_sdk::trace::SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let does = *self.does.lock().unwrap();
        match does {
            Does::Keep => self.spans.lock().unwrap().extend(batch),
            Does::Refuse => return Err(OTelSdkError::InternalFailure("no room".to_owned())),
            Does::Hang => std::future::pending().await,
        }
        Ok(())
    }
}

/// A trace setup with its log. It exports its spans to `kept`.
struct Setting {
    kept: Kept,
    export: TraceExport,
    log: Arc<Mutex<Vec<u8>>>,
    _default: tracing::dispatcher::DefaultGuard,
}

impl Setting {
    fn new(does: Does) -> Self {
        let kept = Kept { does: Arc::new(Mutex::new(does)), spans: Arc::default() };
        let traces = Traces::default();
        let log: Arc<Mutex<Vec<u8>>> = Arc::default();
        let dispatch = logging::to(&LogConfig::default(), Arc::clone(&log), &traces);
        let (batches, queue) = Batches::start(kept.clone(), &Resource::builder_empty().build(), LIMITS);
        let provider = SdkTracerProvider::builder().with_span_processor(batches).build();
        traces.tracer.set(provider.tracer(SCOPE)).unwrap();
        let default = tracing::dispatcher::set_default(&dispatch);
        Self { kept, export: TraceExport { provider, queue }, log, _default: default }
    }

    /// Returns the collector's spans, the numbers of exported, refused and dropped spans, and the log.
    async fn finish(self) -> (Vec<SpanData>, [u64; 3], String) {
        let counts = Arc::clone(&self.export.queue.counts);
        self.export.finish(Duration::from_secs(5)).await;
        let log = String::from_utf8(self.log.lock().unwrap().clone()).unwrap();
        let spans = std::mem::take(&mut *self.kept.spans.lock().unwrap());
        let counts = [&counts.exported, &counts.refused, &counts.dropped].map(|count| count.load(Ordering::Relaxed));
        (spans, counts, log)
    }
}

fn rpc(parent: Option<&str>) -> tracing::Span {
    tracing::info_span!(
        "rpc",
        rpc = "CreateVolume",
        otel.kind = "server",
        otel.name = "csi.v1.Controller/CreateVolume",
        otel.parent = parent,
        otel.state = "vendor=1,other=2",
        rpc.system = "grpc",
        rpc.grpc.status_code = Empty,
        otel.status_description = Empty,
        otel.end = Empty,
    )
}

fn call() -> tracing::Span {
    tracing::info_span!(
        "ec2",
        action = "CreateVolume",
        otel.kind = "client",
        "rpc.method" = "CreateVolume",
        aws.attempts = 2_u64
    )
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    span.attributes.iter().find(|attribute| attribute.key.as_str() == name).map(|it| it.value.to_string())
}

/// A call to AWS is a child of its RPC even if the driver makes the call after the response. The RPC's span ends with
/// the response.
#[tokio::test(start_paused = true)]
async fn rpc_span_joins_caller_trace_and_late_calls_join_rpc_span() {
    let setting = Setting::new(Does::Keep);
    let span = rpc(Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    span.record("rpc.grpc.status_code", 14_i64).record("otel.status_description", "no EC2").record("otel.end", true);
    tokio::time::sleep(LIMITS.delay * 2).await;
    assert_eq!(setting.kept.spans.lock().unwrap().len(), 1, "it has ended, although it is still held");
    span.in_scope(|| tracing::info_span!("between").in_scope(|| drop(call())));
    drop(span);
    let (spans, counts, _) = setting.finish().await;
    let [rpc, call] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!(rpc.name, "csi.v1.Controller/CreateVolume");
    assert_eq!(rpc.span_kind, SpanKind::Server);
    assert_eq!(rpc.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(rpc.parent_span_id.to_string(), "b7ad6b7169203331");
    assert_eq!(rpc.span_context.trace_state().get("vendor"), Some("1"));
    assert_eq!(attribute(rpc, "rpc.grpc.status_code").as_deref(), Some("14"));
    assert_eq!(rpc.status, Status::error("no EC2"));
    assert_eq!((call.name.as_ref(), &call.span_kind), ("ec2", &SpanKind::Client));
    assert_eq!(call.span_context.trace_id(), rpc.span_context.trace_id());
    assert_eq!(call.parent_span_id, rpc.span_context.span_id());
    assert_eq!(attribute(call, "aws.attempts").as_deref(), Some("2"));
    assert_eq!(attribute(call, "action"), None, "fields without a dot are the log's");
    assert_eq!(counts, [2, 0, 0]);
}

/// If the caller sends no valid trace context, a new trace starts. Spans without a kind and spans of other crates are
/// not exported.
#[tokio::test(start_paused = true)]
async fn rpc_without_valid_caller_starts_a_new_trace() {
    let setting = Setting::new(Does::Keep);
    drop(rpc(None));
    drop(rpc(Some("00-nonsense")));
    drop(tracing::info_span!("step"));
    drop(tracing::info_span!(target: "hyper", "foreign", otel.kind = "client"));
    let (spans, ..) = setting.finish().await;
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert!(spans.iter().all(|span| span.parent_span_id == SpanId::INVALID));
    assert_ne!(spans[0].span_context.trace_id(), spans[1].span_context.trace_id());
}

#[tokio::test(start_paused = true)]
async fn trace_attributes_are_not_logged() {
    let setting = Setting::new(Does::Keep);
    rpc(Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")).in_scope(|| tracing::info!("line"));
    let (_, _, log) = setting.finish().await;
    assert!(log.ends_with("] \"line\" rpc=\"CreateVolume\"\n"), "{log}");
}

/// Spans that do not fit into the queue are counted and dropped, and the shutdown takes a limited time.
#[tokio::test(start_paused = true)]
async fn hanging_collector_does_not_block_spans_or_shutdown() {
    let setting = Setting::new(Does::Hang);
    let start = Instant::now();
    for _ in 0..100 {
        drop(rpc(None));
        tokio::task::yield_now().await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    let (spans, counts, log) = setting.finish().await;
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert!(spans.is_empty());
    assert_eq!(counts[2], 100 - 4 - 8, "a message and a full queue");
    assert!(log.contains("some trace spans did not reach the collector"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn collector_failure_and_recovery_are_logged_once() {
    let setting = Setting::new(Does::Refuse);
    for _ in 0..3 {
        drop(rpc(None));
        tokio::time::sleep(LIMITS.delay * 2).await;
    }
    *setting.kept.does.lock().unwrap() = Does::Keep;
    for _ in 0..2 {
        drop(rpc(None));
        tokio::time::sleep(LIMITS.delay * 2).await;
    }
    let (spans, counts, log) = setting.finish().await;
    assert_eq!((spans.len(), counts), (2, [2, 3, 0]));
    assert_eq!(log.matches("failed to export trace spans").count(), 1, "{log}");
    assert_eq!(log.matches("accepts spans again").count(), 1, "{log}");
}

/// The exporter sends spans in batches, and no span waits longer than the delay.
#[tokio::test(start_paused = true)]
async fn finish_exports_queued_spans() {
    let setting = Setting::new(Does::Keep);
    for _ in 0..7 {
        drop(rpc(None));
    }
    let start = Instant::now();
    let (spans, ..) = setting.finish().await;
    assert_eq!(spans.len(), 7);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

//! Traces for `--enable-otel-tracing`: a span for each RPC and each call to AWS, which the driver exports over gRPC to
//! an OTLP collector. All settings are `OTEL_*` variables.
//!
//! Other crates do not depend on this module. They open spans of `tracing`, and this module exports those that have a
//! field `otel.kind`. Fields with a dot in their names become attributes and are not logged. These `otel.*` fields have
//! a special meaning:
//!
//! | field | meaning |
//! |---|---|
//! | `otel.kind` | `server` or `client` |
//! | `otel.name` | the span's name |
//! | `otel.parent`, `otel.state` | the caller's `traceparent` and `tracestate` |
//! | `otel.status_description` | the span has failed, for this reason |
//! | `otel.end` | the span ends here, although some of its work continues |
//!
//! Without the flag, none of this is active. With it, nothing waits for the collector: finished spans enter a bounded
//! queue. Spans that do not fit into the queue are counted and dropped.

mod batches;
mod fields;
mod layer;
mod resource;
mod settings;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::Metadata;

use batches::{Batches, Queue};
use layer::Spans;
pub use settings::{BadAuthorities, BadTraceEndpoint};

/// The name of the instrumentation scope, which collectors show.
const SCOPE: &str = "aws-ebs-csi-driver";

/// Collects spans once it is passed to [`crate::init`]. Exports them from [`Traces::start`] on.
#[derive(Debug, Clone, Default)]
pub struct Traces {
    tracer: Arc<OnceLock<SdkTracer>>,
}

/// Why the exporter cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The endpoint is invalid.
    #[error(transparent)]
    Endpoint(#[from] BadTraceEndpoint),
    /// The certificate file cannot be used.
    #[error(transparent)]
    Authorities(#[from] BadAuthorities),
    /// Another setting is invalid.
    #[error("set up the trace exporter from the OTEL_* variables")]
    Exporter(#[from] ExporterBuildError),
    /// The exporter is already started in this process.
    #[error("start the trace exporter: already started in this process")]
    Started,
}

/// A running exporter.
#[derive(Debug)]
#[must_use = "the last spans are lost without finish"]
pub struct TraceExport {
    provider: SdkTracerProvider,
    queue: Queue,
}

impl Traces {
    pub(crate) fn layer(&self) -> Spans {
        Spans::new(Arc::clone(&self.tracer))
    }

    /// Starts the exporter, or returns `None` when `OTEL_SDK_DISABLED` disables it. Does not connect yet. Must be
    /// called in a runtime.
    pub fn start(&self, version: &str) -> Result<Option<TraceExport>, TracesError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if settings::disabled(variable) {
            tracing::warn!("OTEL_SDK_DISABLED is true: not exporting traces");
            return Ok(None);
        }
        settings::check_endpoint(variable)?;
        for note in settings::without_effect(variable) {
            tracing::warn!("{note}");
        }
        let resource = resource::detect(version);
        let exporter = settings::with_tls(SpanExporter::builder().with_tonic(), variable)?.build()?;
        let (batches, queue) = Batches::start(exporter, &resource, settings::limits(variable));
        let provider = SdkTracerProvider::builder().with_span_processor(batches).with_resource(resource).build();
        self.tracer.set(provider.tracer(SCOPE)).map_err(|_| TracesError::Started)?;
        tracing::info!("exporting traces over OTLP");
        Ok(Some(TraceExport { provider, queue }))
    }
}

impl TraceExport {
    /// Exports the remaining spans, which takes at most `limit`, and ends.
    ///
    /// Cancellation: dropping the future ends the export at once, and the remaining spans are lost.
    pub async fn finish(self, limit: Duration) {
        // Spans that end from now on are dropped. The shutdown itself cannot fail or wait.
        drop(self.provider.shutdown());
        self.queue.finish(limit).await;
    }
}

/// Returns true if the span belongs to the driver and has a kind.
pub(crate) fn is_exported(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && crate::ours::is_ours(metadata.target()) && metadata.fields().field(fields::KIND).is_some()
}

#[cfg(test)]
mod tests;

//! Traces for `--enable-otel-tracing`: a span for each RPC and each call to AWS, which the driver exports over gRPC to
//! an OTLP collector. All settings are `OTEL_*` variables.
//!
//! Other crates open spans of `tracing`, and this module exports those with a field `otel.kind`. Fields with a dot in
//! their names become attributes and are not logged. These `otel.*` fields have a special meaning:
//!
//! | field | meaning |
//! |---|---|
//! | `otel.kind` | `server` or `client` |
//! | `otel.name` | the span's name |
//! | `otel.parent`, `otel.state` | the caller's `traceparent` and `tracestate` |
//! | `otel.status_description` | the span has failed, for this reason |
//! | `otel.end` | the span ends here, although some of its work continues |
//!
//! Nothing waits for the collector: finished spans enter a bounded queue, or are counted and dropped if it is full.

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
    #[error(transparent)]
    Endpoint(#[from] BadTraceEndpoint),
    #[error(transparent)]
    Authorities(#[from] BadAuthorities),
    #[error("set up the trace exporter from the OTEL_* variables")]
    Exporter(#[from] ExporterBuildError),
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
        Spans { tracer: Arc::clone(&self.tracer) }
    }

    /// Starts the exporter in the current runtime, without connecting. Returns `None` if `OTEL_SDK_DISABLED` is set.
    pub fn start(&self, version: &str) -> Result<Option<TraceExport>, TracesError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if settings::disabled(variable) {
            tracing::warn!("OTEL_SDK_DISABLED is true: not exporting traces");
            return Ok(None);
        }
        settings::check_endpoint(variable)?;
        settings::without_effect(variable).iter().for_each(|note| tracing::warn!("{note}"));
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

//! Traces for `--enable-otel-tracing`: one span an RPC, one a call to AWS, sent to an OTLP collector over
//! gRPC. All settings are `OTEL_*` variables.
//!
//! Other crates know nothing of it: they open spans of `tracing`, and those with a field `otel.kind` are exported. Of their fields
//! those with a dot in their names are attributes, and stand in no log line; `otel.*` say what is no attribute:
//!
//! | field | meaning |
//! |---|---|
//! | `otel.kind` | `server` or `client` |
//! | `otel.name` | the span's name |
//! | `otel.parent`, `otel.state` | `traceparent` and `tracestate` of the caller |
//! | `otel.status_description` | the span has failed, with these words |
//! | `otel.end` | the span ends here, although work that belongs to it goes on |
//!
//! Without the flag nothing of this exists. With it, nothing waits for the collector: a queue of bounded length takes finished
//! spans, and what does not fit is counted and lost.

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

pub use batches::TraceCounts;
use batches::{Batches, Queue};
use layer::Spans;
pub use settings::{BadAuthorities, BadTraceEndpoint};

/// Who makes the spans, as collectors show it.
const SCOPE: &str = "aws-ebs-csi-driver";

/// Spans are looked for from the moment this is given to [`crate::init`], and kept from [`Traces::start`] on.
#[derive(Debug, Clone, Default)]
pub struct Traces {
    tracer: Arc<OnceLock<SdkTracer>>,
}

/// The exporter cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// An endpoint that cannot be one.
    #[error(transparent)]
    Endpoint(#[from] BadTraceEndpoint),
    /// A file of certificates that cannot be used.
    #[error(transparent)]
    Authorities(#[from] BadAuthorities),
    /// Another setting is wrong.
    #[error("the exporter of traces cannot be set up by the OTEL_* variables")]
    Exporter(#[from] ExporterBuildError),
    /// It was started before.
    #[error("the exporter of traces was started before in this process")]
    Started,
}

/// The exporter while it works.
#[derive(Debug)]
#[must_use = "without an end the last spans are lost"]
pub struct TraceExport {
    provider: SdkTracerProvider,
    queue: Queue,
}

impl Traces {
    pub(crate) fn layer(&self) -> Spans {
        Spans::new(Arc::clone(&self.tracer))
    }

    /// Begins to export, or returns `None` when `OTEL_SDK_DISABLED` says not to. Contacts nobody yet. Must be called in a runtime.
    ///
    /// # Errors
    /// [`TracesError`].
    pub fn start(&self, version: &str) -> Result<Option<TraceExport>, TracesError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if settings::disabled(variable) {
            tracing::warn!("OTEL_SDK_DISABLED is true: no traces are exported");
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
        tracing::info!("traces are exported over OTLP, as the OTEL_* variables say");
        Ok(Some(TraceExport { provider, queue }))
    }
}

impl TraceExport {
    /// What became of the spans so far; lives on after the end.
    pub fn counts(&self) -> TraceCounts {
        self.queue.counts()
    }

    /// Sends what is left, for at most `limit`, and ends.
    ///
    /// Cancellation: dropping the future ends at once; what is left is lost.
    pub async fn finish(self, limit: Duration) {
        let Self { provider, queue } = self;
        queue.finish(limit).await;
        // Spans that end from here on go nowhere.
        drop(provider);
    }
}

/// A span of ours that is exported.
pub(crate) fn is_exported(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && crate::ours::is_ours(metadata.target()) && metadata.fields().field(fields::KIND).is_some()
}

#[cfg(test)]
mod tests;

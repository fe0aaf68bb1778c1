//! Converts `tracing` spans to OpenTelemetry spans.

use std::sync::{Arc, OnceLock};

use opentelemetry::Context as Parent;
use opentelemetry::trace::{Span, SpanContext, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry_sdk::trace::SdkTracer;
use tracing::Subscriber;
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::fields::Said;

/// Creates an OpenTelemetry span for each span that it receives, once a tracer is set.
#[derive(Debug)]
pub(crate) struct Spans {
    pub(super) tracer: Arc<OnceLock<SdkTracer>>,
}

/// The data stored in a `tracing` span. Children find their parent in this data even after the parent has ended.
struct Exported {
    span: opentelemetry_sdk::trace::Span,
    context: SpanContext,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let (Some(tracer), Some(span)) = (self.tracer.get(), context.span(id)) else { return };
        let mut said = Said::default();
        attributes.record(&mut said);
        let parent = around(&span).or_else(|| said.remote_parent());
        let parent = parent.map_or_else(Parent::new, |parent| Parent::new().with_remote_span_context(parent));
        let name = said.name.take().unwrap_or_else(|| span.name().to_owned());
        let builder = tracer
            .span_builder(name)
            .with_kind(said.kind.clone().unwrap_or(SpanKind::Internal))
            .with_attributes(std::mem::take(&mut said.attributes));
        let mut exported = tracer.build_with_context(builder, &parent);
        add(&mut exported, said);
        let context = exported.span_context().clone();
        span.extensions_mut().insert(Exported { span: exported, context });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut said = Said::default();
        values.record(&mut said);
        if let Some(exported) = span.extensions_mut().get_mut::<Exported>() {
            add(&mut exported.span, said);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        // Dropping the exported span ends it.
        drop(context.span(&id).and_then(|span| span.extensions_mut().remove::<Exported>()));
    }
}

/// Returns the nearest ancestor that is exported.
fn around<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Option<SpanContext> {
    span.parent()?.scope().find_map(|outer| outer.extensions().get::<Exported>().map(|it| it.context.clone()))
}

fn add(span: &mut opentelemetry_sdk::trace::Span, said: Said) {
    span.set_attributes(said.attributes);
    if let Some(failure) = said.failure {
        span.set_status(Status::error(failure));
    }
    if said.ended {
        span.end();
    }
}

//! Reads trace data from the fields of a `tracing` span.

use std::collections::HashMap;
use std::fmt;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanContext, SpanKind, TraceContextExt};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::field::{Field, Visit};

/// The field that marks a span for export.
pub(super) const KIND: &str = "otel.kind";

/// The longest text attribute in bytes. A request may contain names of any length.
const MAX_TEXT: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) kind: Option<SpanKind>,
    pub(super) name: Option<String>,
    pub(super) attributes: Vec<KeyValue>,
    pub(super) failure: Option<String>,
    pub(super) ended: bool,
    /// The trace context headers of the caller.
    caller: HashMap<String, String>,
}

impl Said {
    /// Returns the caller's span, if the request has a valid W3C trace context in its headers.
    pub(super) fn remote_parent(&self) -> Option<SpanContext> {
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &self.caller);
        let parent = context.span().span_context().clone();
        parent.is_valid().then_some(parent)
    }

    fn text(&mut self, name: &'static str, value: String) {
        match name {
            KIND => self.kind = kind(&value),
            "otel.name" => self.name = Some(value),
            "otel.parent" => drop(self.caller.insert("traceparent".to_owned(), value)),
            "otel.state" => drop(self.caller.insert("tracestate".to_owned(), value)),
            "otel.status_description" => self.failure = Some(shortened(value)),
            name => self.attribute(name, shortened(value)),
        }
    }

    fn attribute(&mut self, name: &'static str, value: impl Into<Value>) {
        if concerns(name) {
            self.attributes.push(KeyValue::new(name, value));
        }
    }
}

/// Returns false for fields without a dot, which belong to the log only.
fn concerns(name: &str) -> bool {
    name.contains('.')
}

fn kind(word: &str) -> Option<SpanKind> {
    match word {
        "server" => Some(SpanKind::Server),
        "client" => Some(SpanKind::Client),
        _ => None,
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let at = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(at);
        text.push('…');
    }
    text
}

impl Visit for Said {
    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "otel.end" => self.ended = value,
            name => self.attribute(name, value),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attribute(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        // OTLP has no unsigned numbers, and numbers above the signed maximum do not occur.
        self.record_i64(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.attribute(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if concerns(field.name()) {
            self.text(field.name(), value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if concerns(field.name()) {
            self.text(field.name(), format!("{value:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_character_boundary() {
        let cut = shortened("ü".repeat(MAX_TEXT));
        assert_eq!(cut.chars().count(), MAX_TEXT / 2 + 1);
        assert!(cut.ends_with('…'));
        assert_eq!(shortened("short".to_owned()), "short");
    }
}

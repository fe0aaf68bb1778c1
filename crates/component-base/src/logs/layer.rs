//! Formats events and spans as log lines.

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::line::{Fields, Line, Value};
use super::{LogFormat, Shape, chain};

/// Crates that log too much: their events are reduced to the message and these fields.
#[derive(Debug, Clone, Copy)]
pub struct VerboseCrates {
    /// Recognises a verbose crate by the target of an event or span.
    pub is: fn(&str) -> bool,
    pub fields: &'static [&'static str],
}

impl VerboseCrates {
    /// Reduces no crate's events.
    pub const NONE: Self = Self { is: |_| false, fields: &[] };
}

/// Writes a line for each event, which includes the fields of its spans, outermost first.
#[derive(Debug)]
pub struct Lines<W> {
    format: LogFormat,
    shape: Shape,
    writer: W,
    verbose_crates: VerboseCrates,
}

impl<W> Lines<W> {
    /// Creates a layer that writes lines to `writer`, each in a single write.
    pub fn new(format: LogFormat, writer: W, verbose_crates: VerboseCrates) -> Self {
        Self { format, shape: Shape::QUOTED, writer, verbose_crates }
    }

    /// Sets the shape of the lines.
    #[must_use]
    pub fn shaped(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }
}

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id).filter(|span| !(self.verbose_crates.is)(span.metadata().target())) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.extend(outer);
            }
        }
        let mut own = Fields::default();
        event.record(&mut own);
        if (self.verbose_crates.is)(event.metadata().target()) {
            own.keep(self.verbose_crates.fields);
        }
        fields.extend(&own);
        let line = Line { at: SystemTime::now(), metadata: event.metadata(), fields };
        let mut text = line.render(self.format, self.shape);
        text.push('\n');
        // A single write keeps the lines of concurrent threads apart. A failure to write the log cannot be logged.
        drop(self.writer.make_writer_for(event.metadata()).write_all(text.as_bytes()));
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.name(), Value::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), Value::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), Value::Unsigned(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), Value::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), Value::Text(value.to_owned()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.set(field.name(), Value::Text(chain(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if Self::takes(field.name()) {
            self.set(field.name(), Value::Text(format!("{value:?}")));
        }
    }
}

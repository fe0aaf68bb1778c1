//! Events of `winstorage` among the lines of the log. Those of other crates, which may hold headers and requests, are left out.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::Log;

/// The crate whose events are taken.
const OURS: &str = "winstorage";
/// The verbosity from which on its lesser events are written.
const DETAILS: u32 = 4;

impl Log {
    /// From now on events go to this log. Of several logs of a process the first one gets them.
    pub(crate) fn take_events(&self) {
        let _ignored = tracing::subscriber::set_global_default(Events(self.clone()));
    }
}

struct Events(Log);

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().split("::").next() == Some(OURS)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        match *event.metadata().level() {
            Level::ERROR => self.0.error(line.0),
            Level::WARN => self.0.warning(line.0),
            Level::INFO => self.0.info(line.0),
            _ => self.0.verbose(DETAILS, line.0),
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message first, then the fields.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = if field.name() == "message" {
            let fields = std::mem::take(&mut self.0);
            write!(self.0, "{value:?}{fields}")
        } else {
            write!(self.0, " {}={value:?}", field.name())
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::log::{LogSettings, Severity};

    /// What the operations warn of is in the log, with its fields; other crates' events are not.
    ///
    /// Rule: see `crates/csi-proxy/src/log/tests.rs::a_line_has_klogs_header_and_verbose_ones_are_written_up_to_v`
    #[test]
    fn events_of_the_operations_are_in_the_log_and_others_are_not() {
        let written: Arc<Mutex<Vec<u8>>> = Arc::default();
        let settings = LogSettings {
            verbosity: 0,
            to_stderr: false,
            also_to_stderr: false,
            stderr_from: Severity::Fatal,
            file: None,
            directory: None,
            file_bytes: 0,
            directory_in_header: false,
            skip_line_headers: true,
            skip_file_headers: true,
        };
        let log = Log::to_memory(settings, Arc::clone(&written));
        tracing::subscriber::with_default(Events(log), || {
            tracing::warn!(target: "winstorage::service", disk = 3, "odd");
            tracing::debug!(target: "winstorage", "detail");
            tracing::error!(target: "h2::codec", "header");
        });
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "odd disk=3\n");
    }
}

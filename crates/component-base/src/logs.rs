//! Log lines of text or JSON in the format of klog, the log library of Kubernetes' programs, with UTC times.
//!
//! Decision: `docs/dev/decisions/0025-log-in-klogs-format.md`.

mod by_verbosity;
mod flags;
mod layer;
mod line;
mod quote;
mod verbosity;
mod vmodule;

use std::error::Error;
use std::time::SystemTime;

use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

pub use by_verbosity::ByVerbosity;
pub use flags::{BadLogFlags, LogFlags, LogSettings};
pub use layer::{Lines, VerboseCrates};
pub use quote::escaped_json;
pub use vmodule::{BadModuleLevel, ModuleLevels};

/// The format of log lines. `text`: `I0102 15:04:05.000000    1234 file.rs:10] "message" key="value"`. `json`: an
/// object with `ts`, `caller`, `msg`, and `v` or `err`, then the keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// How a text line looks, apart from its message and fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Whether severity, time, process and source location precede the message.
    pub header: bool,
    /// Whether the directory of the source file precedes its name.
    pub directory: bool,
    /// Whether the message is quoted. An unquoted message should be a fixed text of the program.
    pub quoted: bool,
}

impl Shape {
    /// The shape of lines from klog's newer functions, which log keys and values.
    pub const QUOTED: Self = Self { header: true, directory: false, quoted: true };
    /// The shape of lines from klog's older functions, which print text.
    pub const PRINTED: Self = Self { header: true, directory: false, quoted: false };
}

/// Sets up logging to standard error for the whole process. `settings` apply to code whose target `is_ours` accepts.
/// Other code logs only errors and warnings. If standard error is closed, lines are silently lost.
pub fn init(settings: &LogSettings, is_ours: fn(&str) -> bool) -> Result<(), TryInitError> {
    let wanted = ByVerbosity::new(settings.verbosity, settings.modules.clone(), is_ours);
    let lines = Lines::new(settings.format, std::io::stderr, VerboseCrates::NONE).with_filter(wanted);
    tracing_subscriber::registry().with(lines).try_init()
}

/// Formats a time in UTC with strftime(3) directives. UTC makes the logs of nodes in different time zones comparable.
pub fn utc(at: SystemTime, format: &str) -> String {
    jiff::Timestamp::try_from(at).unwrap_or_default().strftime(format).to_string()
}

/// Returns an error and its causes in one line.
pub fn chain(error: &dyn Error) -> String {
    std::iter::successors(error.source(), |&cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Logs each panic as one line, in the same format as other lines.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or_default();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(panic = message, place, "panicked: this is a bug; please report it");
    }));
}

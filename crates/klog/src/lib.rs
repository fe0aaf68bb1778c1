//! Log lines as klog writes them, the log library of Kubernetes' programs: their shape, their verbosity, and the flags for both.
//!
//! One line an event, as text or JSON, in the shapes that users parse. Times are UTC, which is what klog's local
//! time is in a container.
//!
//! Decision: `docs/decisions/0025-log-in-klogs-format.md`.

mod by_verbosity;
mod date;
mod file_flags;
mod files;
mod flags;
mod layer;
mod line;
mod quote;
mod verbosity;
mod vmodule;

use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

pub use by_verbosity::ByVerbosity;
pub use date::Date;
pub use file_flags::{FILE_FLAGS, FileSettings};
pub use files::{Destination, LineWriter, Output, Severity};
pub use flags::{BadLogFlags, FLAGS, LogSettings};
pub use layer::{Careless, Lines};
pub use vmodule::{BadModuleLevel, ModuleLevels};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `I0102 15:04:05.000000    1234 file.rs:10] "message" key="value"`.
    #[default]
    Text,
    /// One JSON object a line: `ts`, `caller`, `msg`, `v` or `err`, then the keys.
    Json,
}

/// What a text line has besides its message and fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Severity, time, process and place before the message.
    pub header: bool,
    /// The directory of the source file before its name.
    pub directory: bool,
    /// The message in quotes, as klog's newer functions write it. Without them it should be text of ours.
    pub quoted: bool,
}

impl Shape {
    /// As klog's newer functions write lines, those with keys and values.
    pub const QUOTED: Self = Self { header: true, directory: false, quoted: true };
    /// As its older functions do, which print.
    pub const PRINTED: Self = Self { header: true, directory: false, quoted: false };
}

/// Sets up logging for the whole process, to standard error: lines of code that `is_ours`, by its target, as the settings say; of
/// all other code errors and warnings. A standard error that is closed stops nothing: the lines are lost.
///
/// # Errors
/// Logging is set up already.
pub fn init(settings: &LogSettings, is_ours: fn(&str) -> bool) -> Result<(), TryInitError> {
    let wanted = ByVerbosity::new(settings.verbosity, settings.modules.clone(), is_ours);
    let lines = Lines::new(settings.format, std::io::stderr, Careless::NOBODY).with_filter(wanted);
    tracing_subscriber::registry().with(lines).try_init()
}

/// Sets up logging for the whole process as [`FileSettings`] say, and gives the log: lines of code that `is_ours`, and of no other.
/// `program` is in the name of a log file that the settings do not name.
///
/// # Errors
/// The log file cannot be opened, or logging is set up already.
pub fn init_files(settings: FileSettings, program: &str, is_ours: fn(&str) -> bool) -> std::io::Result<Output> {
    let FileSettings { verbosity, modules, shape, destination } = settings;
    let output = Output::open(destination, program)?;
    let wanted = ByVerbosity::new(verbosity, modules, is_ours).without_others();
    let lines = Lines::new(LogFormat::Text, output.clone(), Careless::NOBODY).shaped(shape).with_filter(wanted);
    tracing_subscriber::registry().with(lines).try_init().map_err(std::io::Error::other)?;
    Ok(output)
}

/// Turns a panic into one log line, in the format of the others.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(panic = message, place, "panicked: this is a bug, please report it");
    }));
}

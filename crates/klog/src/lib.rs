//! Log lines as klog writes them, the log library of Kubernetes' programs: their shape, their verbosity, and the flags for both.
//!
//! One line an event, as text or JSON, in the shapes that users parse (`runtime.md` 13). Times are UTC, which is what klog's local
//! time is in a container.

mod by_verbosity;
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

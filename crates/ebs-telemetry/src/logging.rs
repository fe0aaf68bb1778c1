//! Log lines on standard error: one line an event, as text or JSON, in the shapes that the users of the reference
//! driver parse (`runtime.md` 13).

mod layer;
mod line;

use tracing::Dispatch;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `I0102 15:04:05.000000    1234 file.rs:10] "message" key="value"`.
    #[default]
    Text,
    /// One JSON object a line: `ts`, `caller`, `msg`, `v` or `err`, then the keys.
    Json,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogConfig {
    pub format: LogFormat,
    /// `--v`: 0 to 3 say what matters to an operator, 4 to 6 each request and step, 7 and above everything.
    pub verbosity: u32,
    /// `RUST_LOG`: directives that are added to what the verbosity gives and win over it.
    pub directives: Option<String>,
}

/// Logging cannot be set up as asked.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The directives cannot be parsed.
    #[error("RUST_LOG is {0:?}, but must be log directives such as info,ebs_driver=debug")]
    Directives(String, #[source] tracing_subscriber::filter::ParseError),
    /// Something has set up logging before.
    #[error("logging is already set up in this process")]
    AlreadySet(#[source] tracing_subscriber::util::TryInitError),
}

/// Sets up logging for the whole process, to standard error.
pub fn init(config: &LogConfig) -> Result<(), LoggingError> {
    dispatch(config, std::io::stderr)?.try_init().map_err(LoggingError::AlreadySet)
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

fn dispatch<W>(config: &LogConfig, writer: W) -> Result<Dispatch, LoggingError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let wanted = wanted(config)?;
    // Below INFO other people's crates print headers and bodies, credentials among them (D-41): never, even when
    // RUST_LOG asks for it.
    let safe = filter_fn(|metadata| is_ours(metadata.target()) || *metadata.level() <= tracing::Level::INFO);
    let lines = layer::Lines::new(config.format, writer).with_filter(wanted.and(safe));
    Ok(tracing_subscriber::registry().with(lines).into())
}

fn wanted(config: &LogConfig) -> Result<EnvFilter, LoggingError> {
    let ours = match config.verbosity {
        0..=3 => LevelFilter::INFO,
        4..=6 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let base = format!("warn,aws_ebs_csi_driver={ours},ebs_={ours}");
    let extra = config.directives.as_deref().unwrap_or_default();
    let all = if extra.is_empty() { base } else { format!("{base},{extra}") };
    EnvFilter::builder().parse(all).map_err(|error| LoggingError::Directives(extra.to_owned(), error))
}

fn is_ours(target: &str) -> bool {
    target.starts_with("ebs_") || target.starts_with("aws_ebs_csi_driver")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(config: &LogConfig, log: impl FnOnce()) -> String {
        let written = Written::default();
        let writer = written.clone();
        let dispatch = dispatch(config, move || writer.clone()).unwrap();
        tracing::dispatcher::with_default(&dispatch, log);
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn at(verbosity: u32) -> LogConfig {
        LogConfig { verbosity, ..LogConfig::default() }
    }

    /// Verbosity 4 shows each request, 2 does not; 7 shows everything of ours.
    ///
    /// Rule: runtime.md 13
    #[test]
    fn verbosity_four_shows_requests_and_two_does_not() {
        let log = || tracing::debug!("request");
        assert_eq!(logged(&at(2), log), "");
        assert!(logged(&at(4), log).contains("\"request\""));
    }

    /// Rule: see `verbosity_four_shows_requests_and_two_does_not`
    #[test]
    fn verbosity_seven_shows_everything_of_ours() {
        assert!(logged(&at(7), || tracing::trace!("step")).contains("\"step\""));
        assert_eq!(logged(&at(6), || tracing::trace!("step")), "");
    }

    /// Debug output of other crates, which holds headers and bodies, is never logged, whatever RUST_LOG asks.
    ///
    /// Rule: D-41
    #[test]
    fn other_crates_stay_quiet_below_info_even_when_rust_log_asks() {
        let config = LogConfig { directives: Some("trace".to_owned()), ..at(9) };
        let out = logged(&config, || {
            tracing::trace!(target: "aws_smithy_runtime::client", "authorization: canary");
            tracing::debug!(target: "hyper", "x-amz-security-token: canary");
            tracing::warn!(target: "hyper", "trouble");
        });
        assert!(!out.contains("canary"), "{out}");
        assert!(out.contains("trouble"), "{out}");
    }

    #[test]
    fn rust_log_wins_over_the_verbosity() {
        let config = LogConfig { directives: Some("ebs_telemetry=error".to_owned()), ..at(9) };
        assert_eq!(logged(&config, || tracing::warn!("not wanted")), "");
    }

    #[test]
    fn directives_that_cannot_be_understood_are_an_error() {
        let config = LogConfig { directives: Some("ebs_driver=loud".to_owned()), ..LogConfig::default() };
        let error = dispatch(&config, std::io::stderr).map(drop).unwrap_err();
        assert!(error.to_string().contains("loud"), "{error}");
    }

    /// Text log lines carry severity, UTC time, process, source and quoted values with the fields of their request.
    ///
    /// Rule: runtime.md 13
    #[test]
    fn a_line_carries_the_fields_of_its_spans() {
        let out = logged(&at(2), || {
            let outer = tracing::info_span!("rpc", method = "CreateVolume", volume = tracing::field::Empty);
            let _entered = outer.enter();
            outer.record("volume", "vol-0a");
            let inner = tracing::info_span!("step", attempt = 2);
            let _inner = inner.enter();
            tracing::info!(size = 4_u64, "created");
        });
        assert!(out.ends_with("] \"created\" method=\"CreateVolume\" volume=\"vol-0a\" attempt=2 size=4\n"), "{out}");
    }

    /// A JSON log line is one object with ts, caller, msg, v or err.
    ///
    /// Rule: runtime.md 13
    #[test]
    fn a_json_line_is_one_object_with_the_error_under_err() {
        let config = LogConfig { format: LogFormat::Json, ..at(2) };
        let out = logged(&config, || {
            let error = std::io::Error::other("no\nroom");
            tracing::error!(error = &error as &dyn std::error::Error, volume = "vol-0a", "failed to create");
        });
        assert_eq!(out.lines().count(), 1);
        let line: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(line["msg"], "failed to create");
        assert_eq!(line["err"], "no\nroom");
        assert_eq!(line["volume"], "vol-0a");
        assert!(line["ts"].as_f64().unwrap() > 1e12);
        assert!(line["caller"].as_str().unwrap().starts_with("logging.rs:"), "{line}");
        assert!(line.get("v").is_none(), "{line}");
    }
}

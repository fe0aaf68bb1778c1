//! Writes log lines to standard error in klog's format, and filters them.

use component_base::logs::{ByVerbosity, Lines, LogSettings, VerboseCrates};
use tracing::{Dispatch, Level, Metadata};
use tracing_subscriber::filter::{FilterExt, ParseError, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::ours::is_ours;
use crate::traces::{self, Traces};

/// The AWS SDK's warnings contain whole replies of STS, so log only their fixed message and the provider.
const VERBOSE_CRATES: VerboseCrates =
    VerboseCrates { is: |target| target.starts_with("aws_") && !is_ours(target), fields: &["provider"] };

/// The settings of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogConfig {
    pub settings: LogSettings,
    /// The value of `RUST_LOG`: directives that override the verbosity for the targets that they name.
    pub directives: Option<String>,
}

/// Why logging cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    #[error("parse RUST_LOG={0:?} as log directives such as info,ebs_driver=debug")]
    Directives(String, #[source] ParseError),
    #[error("set up logging: already set up in this process")]
    AlreadySet(#[source] tracing_subscriber::util::TryInitError),
}

/// Sets up logging to standard error for the whole process, and passes the spans to `traces`.
pub fn init(config: &LogConfig, traces: Option<&Traces>) -> Result<(), LoggingError> {
    dispatch(config, std::io::stderr, traces)?.try_init().map_err(LoggingError::AlreadySet)
}

fn dispatch<W>(config: &LogConfig, writer: W, traces: Option<&Traces>) -> Result<Dispatch, LoggingError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let directives = config.directives.as_deref();
    let LogSettings { format, verbosity, modules } = config.settings.clone();
    let wanted = wanted(ByVerbosity::new(verbosity, modules, is_ours), directives)
        .map_err(|error| LoggingError::Directives(directives.unwrap_or_default().to_owned(), error))?;
    let lines = Lines::new(format, writer, VERBOSE_CRATES).with_filter(wanted);
    let spans = traces.map(|traces| traces.layer().with_filter(filter_fn(traces::is_exported)));
    Ok(tracing_subscriber::registry().with(lines).with(spans).into())
}

/// Returns a filter for `--v` and `--vmodule`. A `RUST_LOG` directive for a target overrides them.
fn wanted(
    by_verbosity: ByVerbosity,
    directives: Option<&str>,
) -> Result<Box<dyn Filter<Registry> + Send + Sync>, ParseError> {
    let Some(directives) = directives else { return Ok(by_verbosity.boxed()) };
    // If the directives have the same effect after "off" and after "trace", one of the directives covers the target.
    let over = |base: &str| EnvFilter::builder().parse(format!("{base},{directives}"));
    let by_directives = over("off")?.or(over("trace")?.and(by_verbosity));
    Ok(filter_fn(is_safe).and(by_directives).boxed())
}

/// Returns false for other crates' lines below INFO: they may contain credentials, so `RUST_LOG` cannot enable them.
fn is_safe(metadata: &Metadata<'_>) -> bool {
    is_ours(metadata.target()) || *metadata.level() <= Level::INFO
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use component_base::logs::LogFormat;

    use super::*;

    /// Writes lines into a buffer, for the tests of other modules.
    pub(crate) fn to(config: &LogConfig, lines: Arc<Mutex<Vec<u8>>>, traces: &Traces) -> Dispatch {
        dispatch(config, move || Written(Arc::clone(&lines)), Some(traces)).expect("a good configuration")
    }

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
        let dispatch = dispatch(config, move || writer.clone(), None).unwrap();
        tracing::dispatcher::with_default(&dispatch, log);
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn at(verbosity: u32) -> LogConfig {
        LogConfig { settings: LogSettings { verbosity, ..LogSettings::default() }, directives: None }
    }

    fn json(verbosity: u32) -> LogConfig {
        LogConfig { settings: LogSettings { format: LogFormat::Json, ..at(verbosity).settings }, directives: None }
    }

    /// The level of a line determines its verbosity from 0 to 8, and the name of the event can refine it. `--v` shows
    /// all lines up to the given verbosity.
    #[test]
    fn verbosity_flag_shows_lines_up_to_its_number() {
        let log = || {
            tracing::info!("is 0");
            tracing::error!(name: "v9", "is 0");
            tracing::info!(name: "v2", "is 2");
            tracing::info!(name: "v3", "is 3");
            tracing::debug!("is 4");
            tracing::debug!(name: "v2", "is 4");
            tracing::debug!(name: "v5", "is 5");
            tracing::debug!(name: "v6", "is 6");
            tracing::trace!("is 7");
            tracing::trace!(name: "v8", "is 8");
        };
        let all = [0, 0, 2, 3, 4, 4, 5, 6, 7, 8];
        for verbosity in 0..=9 {
            let out = logged(&at(verbosity), log);
            let shown = out.lines().map(|line| line.trim_end_matches('"').rsplit(' ').next().unwrap().parse().unwrap());
            let expected: Vec<u32> = all.into_iter().filter(|of| *of <= verbosity).collect();
            assert_eq!(shown.collect::<Vec<u32>>(), expected, "{verbosity}: {out}");
        }
    }

    #[test]
    fn vmodule_adds_lines_of_named_files_and_hides_none() {
        let log = || {
            tracing::info!(name: "v2", "two");
            tracing::debug!(name: "v5", "five");
            tracing::debug!(name: "v6", "six");
        };
        let with = |modules: &str, verbosity| {
            let mut config = at(verbosity);
            config.settings.modules = modules.parse().unwrap();
            logged(&config, log).lines().count()
        };
        assert_eq!(with("logging=5", 0), 2);
        assert_eq!(with("log*=9", 0), 3);
        assert_eq!(with("mount=9", 0), 0);
        assert_eq!(with("logging=0", 6), 3, "klog's never hides");
    }

    /// Each line is a single write, so that lines of several threads do not mix.
    #[test]
    fn line_is_written_in_a_single_write() {
        #[derive(Clone, Default)]
        struct Writes(Arc<Mutex<Vec<Vec<u8>>>>);
        impl Write for Writes {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().push(bytes.to_vec());
                Ok(bytes.len())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let writes = Writes::default();
        let writer = writes.clone();
        let dispatch = dispatch(&at(9), move || writer.clone(), None).unwrap();
        tracing::dispatcher::with_default(&dispatch, || {
            tracing::info!(text = "x".repeat(100_000), "long");
            tracing::trace!(text = "a\nb", "two");
        });
        let writes = writes.0.lock().unwrap();
        assert_eq!(writes.len(), 2);
        assert!(
            writes.iter().all(|line| line.iter().filter(|byte| **byte == b'\n').count() == 1 && line.ends_with(b"\n"))
        );
    }

    /// The debug output of other crates contains headers and bodies.
    #[test]
    fn rust_log_never_shows_other_crates_below_info() {
        let config = LogConfig { directives: Some("trace".to_owned()), ..at(9) };
        let out = logged(&config, || {
            tracing::trace!(target: "aws_smithy_runtime::client", "authorization: canary");
            tracing::debug!(target: "hyper", "x-amz-security-token: canary");
            tracing::warn!(target: "hyper", "trouble");
        });
        assert!(!out.contains("canary"), "{out}");
        assert!(out.contains("trouble"), "{out}");
    }

    /// The fields of the AWS SDK's warnings contain STS's whole replies.
    #[test]
    fn error_field_of_sdk_warning_is_not_logged() {
        let out = logged(&at(9), || {
            let _call = tracing::info_span!("ec2", action = "CreateVolume").entered();
            tracing::warn!(target: "aws_config::meta", provider = "Imds", error = "SessionToken canary", "no credentials");
        });
        assert!(out.ends_with("] \"no credentials\" action=\"CreateVolume\" provider=\"Imds\"\n"), "{out}");
    }

    #[test]
    fn rust_log_overrides_verbosity_of_named_targets_only() {
        let with = |directives: &str, verbosity| {
            let config = LogConfig { directives: Some(directives.to_owned()), ..at(verbosity) };
            logged(&config, || {
                let _rpc = tracing::info_span!("rpc", volume = "vol-1").entered();
                tracing::warn!("warning");
                tracing::debug!(name: "v6", "detail");
            })
            .lines()
            .count()
        };
        assert_eq!(with("ebs_telemetry=error", 9), 0);
        assert_eq!(with("off", 9), 0);
        assert_eq!(with("ebs_telemetry=debug", 0), 2);
        assert_eq!(with("trace", 0), 2);
        assert_eq!(with("ebs_mounter=trace", 4), 1, "not named: --v counts");
        assert_eq!(with("ebs_mounter=off", 6), 2, "not named: --v counts");
        assert_eq!(with("[rpc{volume=vol-1}]=debug", 0), 2);
        assert_eq!(with("[rpc{volume=vol-2}]=debug", 0), 1);
    }

    #[test]
    fn invalid_directives_are_rejected() {
        let config = LogConfig { directives: Some("ebs_driver=loud".to_owned()), ..LogConfig::default() };
        let error = dispatch(&config, std::io::stderr, None).map(drop).unwrap_err();
        assert!(error.to_string().contains("loud"), "{error}");
    }

    /// A text line has severity, UTC time, process, source, and quoted values, including the fields of its request.
    #[test]
    fn line_contains_fields_of_its_spans() {
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

    #[test]
    fn json_line_has_its_verbosity_or_error() {
        let out = logged(&json(6), || tracing::debug!(name: "v5", "found"));
        assert!(out.contains("\"v\":5"), "{out}");
        let out = logged(&json(2), || {
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

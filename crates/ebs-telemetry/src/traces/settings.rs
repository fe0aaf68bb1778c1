//! Handles the `OTEL_*` variables that the libraries do not read, or do not check sufficiently.

use std::time::Duration;

use opentelemetry_otlp::WithTonicConfig;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};

use super::batches::Limits;

/// The variables with the endpoint, in order of precedence.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Environment variables that name a PEM file of certificate authorities, in order of precedence. The default is the
/// system's authorities.
const CERTIFICATES: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];

/// OpenTelemetry variables without effect, each with the value that fits the driver, and what the driver does.
const WITHOUT_EFFECT: [(&str, &str, &str); 9] = [
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "traces are sent over gRPC"),
    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "traces are sent over gRPC"),
    ("OTEL_TRACES_EXPORTER", "otlp", "traces are sent over OTLP"),
    ("OTEL_PROPAGATORS", "tracecontext", "the driver joins traces of callers with the W3C trace context"),
    ("OTEL_BSP_MAX_CONCURRENT_EXPORTS", "1", "the driver sends one message at a time"),
    ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "1024", "attribute values are truncated at 1024 bytes"),
    ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "1024", "attribute values are truncated at 1024 bytes"),
    ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "", "the driver presents no client certificate to collectors"),
    ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "", "the driver presents no client certificate to collectors"),
];

/// Reports that the collector's endpoint is invalid.
#[derive(Debug, thiserror::Error)]
#[error("parse {variable}: {reason}")]
pub struct BadTraceEndpoint {
    variable: &'static str,
    reason: &'static str,
}

/// Reports that a file of certificate authorities cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("load {variable}={path:?}: {reason}")]
pub struct BadAuthorities {
    variable: &'static str,
    path: String,
    reason: String,
}

pub(super) fn disabled(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Checks the endpoint before the library does, because the library's errors would contain the endpoint's password.
pub(super) fn check_endpoint(variable: impl Fn(&str) -> Option<String>) -> Result<(), BadTraceEndpoint> {
    let Some((name, url)) = ENDPOINTS.into_iter().find_map(|name| Some((name, variable(name)?))) else { return Ok(()) };
    let refuse = |reason| Err(BadTraceEndpoint { variable: name, reason });
    if url.contains('@') {
        return refuse("must not contain a user name or password; use OTEL_EXPORTER_OTLP_HEADERS");
    }
    match url.split_once("://") {
        Some(("http" | "https", _)) | None => Ok(()),
        Some(_) => refuse("must start with http:// or https://, or be HOST:PORT"),
    }
}

/// Configures the certificate authorities for a collector at an https endpoint.
pub(super) fn with_tls<B: WithTonicConfig>(
    builder: B,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<B, BadAuthorities> {
    let tls = match CERTIFICATES.into_iter().find_map(|name| Some((name, variable(name)?))) {
        None => ClientTlsConfig::new().with_native_roots(),
        Some((variable, path)) => {
            let refuse = |reason: String| BadAuthorities { variable, path: path.clone(), reason };
            let pem = std::fs::read(&path).map_err(|error| refuse(error.to_string()))?;
            if !pem.windows(27).any(|window| window == b"-----BEGIN CERTIFICATE-----") {
                return Err(refuse("missing PEM certificate".to_owned()));
            }
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
        }
    };
    Ok(builder.with_tls_config(tls))
}

/// Returns a warning for each variable that is set but has no effect.
pub(super) fn without_effect(variable: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let notes = WITHOUT_EFFECT.into_iter().filter_map(|(name, usual, what)| {
        let value = variable(name)?;
        (value != usual).then(|| format!("{name} has no effect: {what}"))
    });
    notes.collect()
}

/// Returns the limits from `OTEL_BSP_*`. Ignores values that are not positive numbers.
pub(super) fn limits(variable: impl Fn(&str) -> Option<String>) -> Limits {
    let number = |name, usual: u32| {
        let given = variable(name).and_then(|value| value.trim().parse::<u32>().ok()).filter(|value| *value > 0);
        given.unwrap_or(usual)
    };
    let count = |name, usual| usize::try_from(number(name, usual)).unwrap_or(usize::MAX).min(MOST_QUEUED);
    let millis = |name, usual| Duration::from_millis(u64::from(number(name, usual)));
    let queue = count("OTEL_BSP_MAX_QUEUE_SIZE", 2_048);
    Limits {
        queue,
        batch: count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512).min(queue),
        delay: millis("OTEL_BSP_SCHEDULE_DELAY", 5_000),
        export: millis("OTEL_BSP_EXPORT_TIMEOUT", 30_000),
    }
}

/// The largest allowed queue. It limits the memory: a span takes about 1 KiB.
const MOST_QUEUED: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn set<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    /// The driver checks the endpoint before any library can repeat it in an error.
    #[test]
    fn error_for_an_endpoint_with_a_password_hides_the_password() {
        for name in ENDPOINTS {
            let error = check_endpoint(set(&[(name, "http://user:canary@collector:4317")])).unwrap_err().to_string();
            assert!(error.contains(name) && !error.contains("canary") && !error.contains("user:"), "{error}");
            check_endpoint(set(&[(name, "ftp://collector:4317")])).unwrap_err();
            for good in ["http://collector:4317", "https://collector", "collector:4317"] {
                check_endpoint(set(&[(name, good)])).unwrap();
            }
        }
        check_endpoint(set(&[])).unwrap();
    }

    #[test]
    fn warning_names_the_variable_without_effect() {
        assert!(without_effect(set(&[])).is_empty());
        for (name, usual, _) in WITHOUT_EFFECT {
            assert!(usual.is_empty() || without_effect(set(&[(name, usual)])).is_empty(), "{name}");
            let notes = without_effect(set(&[(name, "other")]));
            assert!(notes.len() == 1 && notes[0].starts_with(name), "{notes:?}");
        }
    }

    #[test]
    fn trace_batch_limits_are_read_from_variables_and_bounded() {
        let usual = Limits { queue: 2_048, batch: 512, delay: Duration::from_secs(5), export: Duration::from_secs(30) };
        assert_eq!(limits(set(&[])), usual);
        assert_eq!(limits(set(&[("OTEL_BSP_MAX_QUEUE_SIZE", "0"), ("OTEL_BSP_SCHEDULE_DELAY", "soon")])), usual);
        let given = limits(set(&[("OTEL_BSP_MAX_QUEUE_SIZE", "10"), ("OTEL_BSP_SCHEDULE_DELAY", "100")]));
        assert_eq!((given.queue, given.batch, given.delay), (10, 10, Duration::from_millis(100)));
        assert_eq!(limits(set(&[("OTEL_BSP_MAX_QUEUE_SIZE", "4000000000")])).queue, MOST_QUEUED);
    }

    #[test]
    fn otel_sdk_is_disabled_only_by_the_value_true() {
        assert!(disabled(set(&[("OTEL_SDK_DISABLED", "True")])));
        assert!(!disabled(set(&[("OTEL_SDK_DISABLED", "1")])));
        assert!(!disabled(set(&[])));
    }
}

//! The `OTEL_*` variables that the libraries do not read by themselves, or read too trustingly.

use std::time::Duration;

use opentelemetry_otlp::WithTonicConfig;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};

use super::batches::Limits;

/// By precedence.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// A PEM file of the authorities that the collector's certificate may be from, by precedence; none: the system's.
const CERTIFICATES: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];

/// Variables of OpenTelemetry that change nothing here, the one value that is what is done anyway, and what is.
const WITHOUT_EFFECT: [(&str, &str, &str); 9] = [
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "traces are sent over gRPC"),
    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "traces are sent over gRPC"),
    ("OTEL_TRACES_EXPORTER", "otlp", "traces are sent over OTLP"),
    ("OTEL_PROPAGATORS", "tracecontext", "traces of callers are joined by W3C's trace context"),
    ("OTEL_BSP_MAX_CONCURRENT_EXPORTS", "1", "one message is sent at a time"),
    ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "1024", "text of attributes is cut at 1024 bytes"),
    ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "1024", "text of attributes is cut at 1024 bytes"),
    ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "", "collectors are shown no certificate"),
    ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "", "collectors are shown no certificate"),
];

/// An endpoint of the collector that cannot be one.
#[derive(Debug, thiserror::Error)]
#[error("{variable} cannot be used: {reason}")]
pub struct BadTraceEndpoint {
    variable: &'static str,
    reason: &'static str,
}

/// The file of authorities cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{variable}={path:?} cannot be used: {reason}")]
pub struct BadAuthorities {
    variable: &'static str,
    path: String,
    reason: String,
}

pub(super) fn disabled(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// The library would repeat the endpoint in its errors, with a password in it.
pub(super) fn check_endpoint(variable: impl Fn(&str) -> Option<String>) -> Result<(), BadTraceEndpoint> {
    let Some((name, url)) = ENDPOINTS.into_iter().find_map(|name| Some((name, variable(name)?))) else { return Ok(()) };
    let refuse = |reason| Err(BadTraceEndpoint { variable: name, reason });
    if url.contains('@') {
        return refuse("it must not contain a user name or password: OTEL_EXPORTER_OTLP_HEADERS is for those");
    }
    match url.split_once("://") {
        Some(("http" | "https", _)) | None => Ok(()),
        Some(_) => refuse("it must start with http:// or https://, or be HOST:PORT"),
    }
}

/// With the authorities that may vouch for a collector at an https endpoint.
///
/// # Errors
/// When the file of authorities cannot be used.
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
                return Err(refuse("it holds no PEM certificate".to_owned()));
            }
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
        }
    };
    Ok(builder.with_tls_config(tls))
}

/// A line for each variable that is set and changes nothing.
pub(super) fn without_effect(variable: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let notes = WITHOUT_EFFECT.into_iter().filter_map(|(name, usual, what)| {
        let value = variable(name)?;
        (value != usual).then(|| format!("{name} has no effect: {what}"))
    });
    notes.collect()
}

/// `OTEL_BSP_*`; a value that is no positive number is as good as none.
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

/// Memory is bounded whatever is asked for: a span has about 1 KiB.
const MOST_QUEUED: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn set<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    /// The endpoint of the collector is checked before anything repeats it: a password in it is in no message.
    #[test]
    fn an_endpoint_with_a_password_is_refused_without_repeating_it() {
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

    /// A variable of OpenTelemetry that has no effect is named in the log when it is set to something else than what is done anyway.
    #[test]
    fn variables_without_effect_are_named_when_they_ask_for_something_else() {
        assert!(without_effect(set(&[])).is_empty());
        for (name, usual, _) in WITHOUT_EFFECT {
            assert!(usual.is_empty() || without_effect(set(&[(name, usual)])).is_empty(), "{name}");
            let notes = without_effect(set(&[(name, "other")]));
            assert!(notes.len() == 1 && notes[0].starts_with(name), "{notes:?}");
        }
    }

    #[test]
    fn batches_are_as_the_variables_say_and_bounded() {
        let usual = Limits { queue: 2_048, batch: 512, delay: Duration::from_secs(5), export: Duration::from_secs(30) };
        assert_eq!(limits(set(&[])), usual);
        assert_eq!(limits(set(&[("OTEL_BSP_MAX_QUEUE_SIZE", "0"), ("OTEL_BSP_SCHEDULE_DELAY", "soon")])), usual);
        let given = limits(set(&[("OTEL_BSP_MAX_QUEUE_SIZE", "10"), ("OTEL_BSP_SCHEDULE_DELAY", "100")]));
        assert_eq!((given.queue, given.batch, given.delay), (10, 10, Duration::from_millis(100)));
        assert_eq!(limits(set(&[("OTEL_BSP_MAX_QUEUE_SIZE", "4000000000")])).queue, MOST_QUEUED);
    }

    #[test]
    fn the_sdk_can_be_switched_off() {
        assert!(disabled(set(&[("OTEL_SDK_DISABLED", "True")])));
        assert!(!disabled(set(&[("OTEL_SDK_DISABLED", "1")])));
        assert!(!disabled(set(&[])));
    }
}

//! The client's deadline, which its `grpc-timeout` header contains.

use std::time::Duration;

use tonic::metadata::MetadataMap;

/// How long an operation may retry if its client has no deadline.
const USUAL: Duration = Duration::from_secs(60);

pub(super) fn given(metadata: &MetadataMap) -> Option<Duration> {
    metadata.get("grpc-timeout").and_then(|value| value.to_str().ok()).and_then(parse)
}

/// Returns how long an operation may retry after it has waited: a little less than the client's remaining time.
pub(super) fn patience(given: Option<Duration>, waited: Duration) -> Duration {
    given.map_or(USUAL, |limit| limit.saturating_sub(waited).mul_f64(0.9))
}

fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.is_empty() || number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeout_is_parsed_and_bounds_the_retry_time() {
        assert_eq!(parse("2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(parse("90S"), Some(Duration::from_secs(90)));
        assert_eq!(parse("250m"), Some(Duration::from_millis(250)));
        for text in ["", "S", "1", "1s", "-1S", "123456789S", "1.5S", "é"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        let mut metadata = MetadataMap::new();
        assert_eq!(given(&metadata), None);
        metadata.insert("grpc-timeout", "10S".parse().unwrap());
        assert_eq!(given(&metadata), Some(Duration::from_secs(10)));
        assert_eq!(patience(None, Duration::from_secs(90)), USUAL);
        let limit = Some(Duration::from_secs(10));
        assert_eq!(patience(limit, Duration::ZERO), Duration::from_secs(9));
        assert_eq!(patience(limit, Duration::from_secs(5)), Duration::from_millis(4_500));
        assert_eq!(patience(limit, Duration::from_secs(11)), Duration::ZERO);
    }
}

//! Values as Go programs read them.

use std::time::Duration;

/// `1 t T true TRUE True` and their opposites.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it must be true or false".to_owned()),
    }
}

/// A Go duration: numbers with units, `2s`, `1m30s`, `1.5h`, `0`. Not negative.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let bad = || "it must be a duration such as 2s, 500ms or 1m30s".to_owned();
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, after) = rest.split_at(unit_at);
        let next_at = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(next_at);
        let seconds = number.parse::<f64>().map_err(|_| bad())? * unit_seconds(unit).ok_or_else(bad)?;
        let part = Duration::try_from_secs_f64(seconds).map_err(|_| bad())?;
        total = total.checked_add(part).ok_or_else(bad)?;
        rest = next;
    }
    Ok(total)
}

fn unit_seconds(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e-9),
        "us" | "µs" | "μs" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    }
}

/// A duration above zero.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    duration(text)
        .and_then(|value| if value.is_zero() { Err("it must be longer than 0".to_owned()) } else { Ok(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Durations are read as Go writes them.
    ///
    /// Rule: runtime.md 2
    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in [
            ("0", 0),
            ("2s", 2_000),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("+1s", 1_000),
            (".5s", 500),
            ("1h0m0.25s", 3_600_250),
            ("3000us", 3),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    /// Rule: see `durations_are_read_as_go_writes_them`
    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "2", "s", "-2s", "2 s", "2sec", "1.2.3s", "1e3s", "+", "99999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(positive_duration("0s").is_err());
    }

    /// Rule: see `crates/ebs-csi-driver/src/cli/tests.rs::booleans_are_bare_or_take_their_value_after_an_equals_sign`
    #[test]
    fn booleans_have_six_spellings_each() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(boolean(text), Ok(true));
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(boolean(text), Ok(false));
        }
        for text in ["", "yes", "tRUE", "2"] {
            assert!(boolean(text).is_err(), "{text}");
        }
    }
}

//! Parses values as Go programs do. Each error states the rule for the value, worded as the end of a sentence.

use std::time::Duration;

/// Parses `1 t T true TRUE True` or their opposites.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it must be true or false".to_owned()),
    }
}

/// Parses a Go duration: numbers with units, `2s`, `1m30s`, `1.5h`, `0`. Rejects negative durations.
pub fn duration(text: &str) -> Result<Duration, String> {
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

/// Parses an integer like a Go flag: with an optional sign and prefix `0x`, `0o`, `0b` or `0`, and underscores.
pub fn integer(text: &str) -> Result<i64, String> {
    let bad = || "it must be a whole number".to_owned();
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // Go permits underscores only after a prefix, between it and the digits or between digits.
    let misplaced = digits.contains('_') && (radix == 10 || digits.ends_with('_') || digits.contains("__"));
    let digits = digits.replace('_', "");
    if misplaced || digits.starts_with(['+', '-']) {
        return Err(bad());
    }
    let signed = if negative { format!("-{digits}") } else { digits };
    i64::from_str_radix(&signed, radix).map_err(|_| bad())
}

/// Parses the verbosity of the log.
pub fn level(text: &str) -> Result<u32, String> {
    let level = i32::try_from(integer(text)?).ok().and_then(|level| u32::try_from(level).ok());
    level.ok_or_else(|| "it must be a whole number from 0 to 2147483647".to_owned())
}

/// Checks a size in the format of Kubernetes quantities, `64Ki`, `1.5M`. Returns `0` for any spelling of zero.
pub fn size(text: &str) -> Result<String, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &text[number.len()..];
    let known = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let plain = number.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    match number.parse::<f64>() {
        Ok(value) if plain && known.contains(&suffix) && value >= 0.0 => {
            Ok(if value > 0.0 { text.to_owned() } else { "0".to_owned() })
        }
        _ => Err("it must be a size such as 0 or 64Ki".to_owned()),
    }
}

/// Parses a duration above zero.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    duration(text)
        .and_then(|value| if value.is_zero() { Err("it must be longer than 0".to_owned()) } else { Ok(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_parsed() {
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

    #[test]
    fn invalid_duration_is_rejected() {
        for text in ["", "2", "s", "-2s", "2 s", "2sec", "1.2.3s", "1e3s", "+", "99999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(positive_duration("0s").is_err());
    }

    #[test]
    fn integer_flags_are_parsed_as_in_go() {
        for (text, number) in [
            ("0", 0),
            ("-1", -1),
            ("+7", 7),
            ("0x1F", 31),
            ("0b11", 3),
            ("0o17", 15),
            ("017", 15),
            ("-0x10", -16),
            ("0x1_0", 16),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(integer(text), Ok(number), "{text}");
        }
        assert_eq!((level("0x5"), level("2147483647")), (Ok(5), Ok(2_147_483_647)));
        assert!(level("-1").is_err() && level("2147483648").unwrap_err().contains("2147483647"));
        for text in
            ["", "-", "+", "1.0", "1e3", "many", " 1", "1 ", "0x", "08", "--1", "+-1", "1_000", "9223372036854775808"]
        {
            assert!(integer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn zero_size_is_normalized_to_0_and_others_are_unchanged() {
        for (text, kept) in [("0", "0"), ("0Ki", "0"), ("0.0", "0"), ("64Ki", "64Ki"), ("1.5M", "1.5M"), ("1", "1")] {
            assert_eq!(size(text).as_deref(), Ok(kept), "{text}");
        }
        for text in ["", "Ki", "-1", "1KB", "x", "inf", "NaN"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_boolean_value_has_six_accepted_spellings() {
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

//! The `Date` of replies.

use std::time::SystemTime;

use http::HeaderValue;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the time in HTTP format: `Sun, 22 Nov 2026 08:18:48 GMT`.
pub(super) fn header(time: SystemTime) -> HeaderValue {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let day = DAYS.iter().cycle().nth(usize::try_from(seconds / 86_400 % 7).unwrap_or_default());
    // 2026-11-22T08:18:48Z
    let text = humantime::format_rfc3339_seconds(time).to_string();
    let month = text[5..7].parse::<usize>().ok().and_then(|n| MONTHS.get(n - 1));
    let (day, month) = (day.unwrap_or(&""), month.unwrap_or(&""));
    let text = format!("{day}, {} {month} {} {} GMT", &text[8..10], &text[..4], &text[11..19]);
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The simulator dates its replies by its own clock.
    #[test]
    fn date_has_http_format() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (1_709_208_000, "Thu, 29 Feb 2024 12:00:00 GMT"),
        ] {
            assert_eq!(header(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}

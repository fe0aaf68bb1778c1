//! The date in UTC, so that logs of nodes in several time zones can be compared.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A Gregorian date and time. Displayed in RFC 3339 format with microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    micros: u32,
}

const DAY: u64 = 24 * 60 * 60;

impl Date {
    /// Returns the current time.
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    fn at(seconds: u64, micros: u32) -> Self {
        let (mut year, mut days) = (1970, seconds / DAY);
        while days >= year_length(year) {
            days -= year_length(year);
            year += 1;
        }
        let february = year_length(year) - 337;
        let mut month = 1;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        Self { year, month, day: days + 1, hour, minute, second, micros }
    }

    /// Returns `mmdd hh:mm:ss.uuuuuu`, the format in a log line.
    pub(super) fn stamp(&self) -> String {
        let Self { month, day, hour, minute, second, micros, .. } = self;
        format!("{month:02}{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
    }

    /// Returns `yyyymmdd-hhmmss`, the format in file names.
    pub(super) fn compact(&self) -> String {
        let Self { year, month, day, hour, minute, second, .. } = self;
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
    }
}

/// A time before 1970 becomes 1970.
impl From<SystemTime> for Date {
    fn from(at: SystemTime) -> Self {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::at(since.as_secs(), since.subsec_micros())
    }
}

impl fmt::Display for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second, micros } = self;
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

fn year_length(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    365 + u64::from(leap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_follows_calendar_to_the_microsecond() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000Z"),
            (1_795_527_247, "2026-11-24T13:34:07.000000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(Date::at(seconds, 0).to_string(), expected, "{seconds}");
        }
        let date = Date::at(951_782_399, 42);
        assert_eq!((date.stamp().as_str(), date.compact().as_str()), ("0228 23:59:59.000042", "20000228-235959"));
    }
}

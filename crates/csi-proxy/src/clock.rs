//! The date, in UTC: a node's zone is nobody's business who compares logs of many nodes.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment by the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: u64,
    pub(crate) month: u64,
    pub(crate) day: u64,
    pub(crate) hour: u64,
    pub(crate) minute: u64,
    pub(crate) second: u64,
    pub(crate) micros: u32,
}

/// Now. A clock before 1970 counts as 1970.
pub(crate) fn now() -> Date {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Date::at(since.as_secs(), since.subsec_micros())
}

const DAY: u64 = 24 * 60 * 60;
/// Days of four centuries, of which the calendar repeats.
const ERA: u64 = 146_097;

impl Date {
    /// From seconds since 1970. Years begin in March here, so that the odd day is their last.
    fn at(seconds: u64, micros: u32) -> Self {
        let (days, rest) = (seconds / DAY + 719_468, seconds % DAY);
        let (era, day_of_era) = (days / ERA, days % ERA);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        Self {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted + 2) / 5 + 1,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
            micros,
        }
    }

    /// For names of files.
    pub(crate) fn compact(&self) -> String {
        let Self { year, month, day, hour, minute, second, .. } = self;
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
    }
}

/// RFC 3339.
impl fmt::Display for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second, micros } = self;
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(Date::at(0, 0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(Date::at(951_782_399, 7).to_string(), "2000-02-28T23:59:59.000007Z");
        assert_eq!(Date::at(951_782_400, 0).to_string(), "2000-02-29T00:00:00.000000Z");
        assert_eq!(Date::at(1_795_527_247, 0).to_string(), "2026-11-24T13:34:07.000000Z");
        assert_eq!(Date::at(4_107_542_399, 0).to_string(), "2100-02-28T23:59:59.000000Z");
        assert_eq!(Date::at(4_107_542_400, 0).compact(), "21000301-000000");
    }
}

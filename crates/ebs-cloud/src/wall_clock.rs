//! The time of day, and the age of objects.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// How far a working clock can be off. EC2 refuses requests whose date differs by more.
pub(crate) const CLOCK_ERROR: Duration = Duration::from_secs(300);
/// By how much AWS's dates can be too early, because AWS truncates them to whole seconds.
const CUT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(crate) enum WallClock {
    /// The machine's clock. It is read each time, because it may be set while the process runs.
    Machine,
    /// A clock that runs with tokio's clock, so that objects with dates age in tests with paused time.
    Running { base: SystemTime, since: Instant },
}

impl WallClock {
    /// Returns a clock that shows this time now, or the machine's clock if the time is `None`.
    pub(crate) fn showing(time_of_day: Option<SystemTime>) -> Self {
        time_of_day.map_or(Self::Machine, |base| Self::Running { base, since: Instant::now() })
    }

    pub(crate) fn now(&self) -> SystemTime {
        match self {
            Self::Machine => SystemTime::now(),
            Self::Running { base, since } => *base + since.elapsed(),
        }
    }
}

/// Returns the minimum age of an object at the time of AWS's reply, by AWS's own clock. The object began at `began`,
/// and `said_at` is the reply's date. `now` is our time of day, for replies without a date.
pub(crate) fn age(began: Option<SystemTime>, said_at: Option<SystemTime>, now: SystemTime) -> Option<Duration> {
    let began = began?;
    match said_at {
        Some(date) => date.duration_since(began).ok()?.checked_sub(CUT),
        None => now.duration_since(began).ok()?.checked_sub(CLOCK_ERROR),
    }
}

//! The time of day, and the age of objects.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// EC2 refuses requests with a date that is further off than this.
pub(crate) const CLOCK_ERROR: Duration = Duration::from_secs(300);
/// AWS truncates its dates to whole seconds.
const CUT: Duration = Duration::from_secs(1);

/// The time of day.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WallClock {
    /// The clock of the machine, read each time, because it may be set while the process runs.
    Machine,
    /// A clock that runs with tokio's, so that tests with paused time can age dated objects.
    Running { base: SystemTime, since: Instant },
}

impl WallClock {
    /// Returns a clock that shows this time now. `None`: the clock of the machine.
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

/// Returns the least age of an object at the time of AWS's reply, by AWS's own clock. `began` is the date of the
/// object, and `said_at` the date of the reply. `now` is our time of day, for replies without a date.
pub(crate) fn age(began: Option<SystemTime>, said_at: Option<SystemTime>, now: SystemTime) -> Option<Duration> {
    let began = began?;
    match said_at {
        Some(date) => date.duration_since(began).ok()?.checked_sub(CUT),
        None => now.duration_since(began).ok()?.checked_sub(CLOCK_ERROR),
    }
}

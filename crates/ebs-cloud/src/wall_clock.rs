//! The time of day, and how old things are by it.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// EC2 refuses requests that are dated further off than this.
pub(crate) const CLOCK_ERROR: Duration = Duration::from_secs(300);
/// AWS's dates are cut to whole seconds.
const CUT: Duration = Duration::from_secs(1);

/// The time of day.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WallClock {
    /// That of the machine, read each time: a clock may be set while the process runs.
    Machine,
    /// One that runs on tokio's clock, so that tests with paused time can age what EC2 dates.
    Running { base: SystemTime, since: Instant },
}

impl WallClock {
    /// One that shows this time now; `None`: that of the machine.
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

/// How old a thing was at least when AWS spoke of it, by AWS's own clock: `began` is its date, `said_at` the date of the reply.
/// `now` is our time of day, for replies without a date.
pub(crate) fn age(began: Option<SystemTime>, said_at: Option<SystemTime>, now: SystemTime) -> Option<Duration> {
    let began = began?;
    match said_at {
        Some(date) => date.duration_since(began).ok()?.checked_sub(CUT),
        None => now.duration_since(began).ok()?.checked_sub(CLOCK_ERROR),
    }
}

//! The time of day on tokio's clock, so that tests with paused time can age what EC2 dates.

use std::time::SystemTime;

use tokio::time::Instant;

/// A time of day that was read once and has run on tokio's clock since.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WallClock {
    base: SystemTime,
    since: Instant,
}

impl WallClock {
    pub(crate) fn from(base: SystemTime) -> Self {
        Self { base, since: Instant::now() }
    }

    pub(crate) fn now(&self) -> SystemTime {
        self.base + self.since.elapsed()
    }
}

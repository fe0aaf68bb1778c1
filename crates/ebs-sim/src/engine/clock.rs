//! The wall clock of the simulated EC2, driven by tokio's clock.

use std::time::SystemTime;

use tokio::time::Instant;

/// A pair of moments that were the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    wall: SystemTime,
    tokio: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { wall: SystemTime::now(), tokio: Instant::now() }
    }

    pub(super) fn now(&self) -> SystemTime {
        self.wall + self.tokio.elapsed()
    }

    /// When tokio's clock shows this time; now for the past.
    pub(super) fn instant(&self, at: SystemTime) -> Instant {
        self.tokio + at.duration_since(self.wall).unwrap_or_default()
    }
}

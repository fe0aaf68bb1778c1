//! The wall clock of the simulated EC2, driven by tokio's clock and by jumps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// The start time of an engine whose runs must be repeatable, 2026-01-01T00:00:00Z.
const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// Two equal moments of both clocks, and the sum of all jumps since. Clones are the same clock.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    wall: SystemTime,
    tokio: Instant,
    leaped_micros: Arc<AtomicU64>,
}

impl Clock {
    /// Starts now, but not before `not_before`: a time that a client has seen is never in the future again.
    pub(super) fn start(not_before: Option<SystemTime>) -> Self {
        Self::at(SystemTime::now().max(not_before.unwrap_or(SystemTime::UNIX_EPOCH)))
    }

    /// Starts at the same moment in every run.
    pub(super) fn repeatable() -> Self {
        Self::at(SystemTime::UNIX_EPOCH + EPOCH)
    }

    fn at(wall: SystemTime) -> Self {
        Self { wall, tokio: Instant::now(), leaped_micros: Arc::default() }
    }

    pub(super) fn now(&self) -> SystemTime {
        self.wall + self.tokio.elapsed() + self.leaped()
    }

    /// Returns when tokio's clock shows this time, or now for the past.
    pub(super) fn instant(&self, at: SystemTime) -> Instant {
        self.tokio + at.duration_since(self.wall + self.leaped()).unwrap_or_default()
    }

    pub(super) fn leap(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.leaped_micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn leaped(&self) -> Duration {
        Duration::from_micros(self.leaped_micros.load(Ordering::Relaxed))
    }
}

//! The wall clock of the simulated EC2. It follows tokio's clock, and can jump.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// The time at which the clock of a repeatable run starts: 2026-01-01T00:00:00Z.
const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// The start time on the wall clock and on tokio's clock, and the sum of all jumps since then. Clones share the clock.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    wall: SystemTime,
    tokio: Instant,
    leaped_micros: Arc<AtomicU64>,
}

impl Clock {
    /// Starts the clock now or at `not_before`, if later, so that no time that a client has seen is in the future.
    pub(super) fn start(not_before: Option<SystemTime>) -> Self {
        Self::at(SystemTime::now().max(not_before.unwrap_or(SystemTime::UNIX_EPOCH)))
    }

    /// Starts the clock at the same time in every run.
    pub(super) fn repeatable() -> Self {
        Self::at(SystemTime::UNIX_EPOCH + EPOCH)
    }

    fn at(wall: SystemTime) -> Self {
        Self { wall, tokio: Instant::now(), leaped_micros: Arc::default() }
    }

    pub(super) fn now(&self) -> SystemTime {
        self.wall + self.tokio.elapsed() + self.leaped()
    }

    /// Returns the tokio time at which this clock shows `at`, or the current tokio time if `at` has passed.
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

//! Limits the rate of calls of one connection, and allows bursts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The number of calls in a burst. A node plugin that stages a hundred volumes stays below it.
const BURST: u32 = 500;
/// The time that each call beyond the burst takes: 100 calls a second.
const EACH: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Pace(Mutex<Instant>);

impl Pace {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    pub(crate) async fn next(&self) {
        sleep_until(self.reserve()).await;
    }

    /// Reserves the next call and returns when it may start. An idle connection saves up time for a burst.
    fn reserve(&self) -> Instant {
        let now = Instant::now();
        let mut paid = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *paid = (*paid).max(now) + EACH;
        paid.checked_sub(EACH * BURST).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_beyond_the_burst_of_a_connection_are_delayed() {
        let (began, busy) = (Instant::now(), Pace::new());
        for _ in 0..BURST {
            busy.next().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..100 {
            busy.next().await;
        }
        assert!(began.elapsed() >= EACH * 100, "{:?}", began.elapsed());
        let other = Instant::now();
        Pace::new().next().await;
        assert_eq!(other.elapsed(), Duration::ZERO);
    }
}

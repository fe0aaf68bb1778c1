//! How fast one connection may call: bursts are fine, a flood is slowed down.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Calls that may come at once; a node plugin that stages a hundred volumes stays below.
const BURST: u32 = 500;
/// The time that each call beyond takes: 100 a second.
const EACH: Duration = Duration::from_millis(10);

/// The calls of one connection.
#[derive(Debug)]
pub(crate) struct Pace(Mutex<Instant>);

impl Pace {
    /// Nothing was called yet.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    /// Waits until the connection's next call may begin.
    pub(crate) async fn next(&self) {
        sleep_until(self.reserve()).await;
    }

    /// When the next call may begin. Each takes its time from what the connection has saved up.
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

    /// Calls of one connection beyond a burst are slowed down; those of another are not.
    #[tokio::test(start_paused = true)]
    async fn calls_of_a_connection_beyond_a_burst_are_slowed_down() {
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

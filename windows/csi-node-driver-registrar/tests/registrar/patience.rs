//! Waits for a condition, with a timeout.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The timeout of every wait. It is long enough for a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(120);

pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> anyhow::Result<T> {
    let mut tick = interval(Duration::from_millis(10));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let seen = async {
        loop {
            tick.tick().await;
            if let Some(seen) = look().await {
                return seen;
            }
        }
    };
    match timeout(BOUND, seen).await {
        Ok(seen) => Ok(seen),
        Err(_elapsed) => bail!("{what} has not come within {BOUND:?}"),
    }
}

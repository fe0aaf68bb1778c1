//! The rate limit of a page.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// A token bucket that uses tokio's clock. It rejects requests and never delays them.
#[derive(Debug)]
pub(crate) struct RateLimit {
    burst: f64,
    per_second: f64,
    /// The number of tokens, and when it was last updated.
    state: Mutex<(f64, Instant)>,
}

impl RateLimit {
    /// Creates a full bucket.
    pub(crate) fn new(burst: u32, per_second: u32) -> Self {
        let burst = f64::from(burst);
        Self { burst, per_second: f64::from(per_second), state: Mutex::new((burst, Instant::now())) }
    }

    /// Takes a token. Returns false if the bucket is empty.
    pub(crate) fn admit(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (tokens, since) = *state;
        let now = Instant::now();
        let tokens = (tokens + (now - since).as_secs_f64() * self.per_second).min(self.burst);
        let admitted = tokens >= 1.0;
        *state = (if admitted { tokens - 1.0 } else { tokens }, now);
        admitted
    }
}

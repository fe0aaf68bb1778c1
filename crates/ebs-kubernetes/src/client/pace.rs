//! The rate limit: 5 calls a second, bursts of 10, and no call while the server's Retry-After lasts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebs_ec2::Tokens;
use tokio::time::Instant;

/// The average number of calls a second.
const RATE: f64 = 5.0;
const BURST: f64 = 10.0;
/// The longest pause that a Retry-After causes. Longer values are shortened to this.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Pace {
    tokens: Tokens,
    since: Instant,
    silence: Silence,
}

/// The server's Retry-After: when the next call may be sent. Calls in flight share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Silence(Arc<Mutex<Option<Instant>>>);

impl Pace {
    pub(super) fn new() -> Self {
        Self { tokens: Tokens::full(BURST), since: Instant::now(), silence: Silence::default() }
    }

    pub(super) fn silence(&self) -> Silence {
        self.silence.clone()
    }

    /// Takes a token, or returns the time to wait before the next try.
    pub(super) fn take(&mut self) -> Result<(), Duration> {
        let now = Instant::now();
        self.tokens.refill(now - self.since, RATE, BURST);
        self.since = now;
        if let Some(until) = self.silence.until().filter(|until| *until > now) {
            return Err(until - now);
        }
        // The minimum prevents a busy loop because of rounding.
        if self.tokens.take() { Ok(()) } else { Err(self.tokens.until_next(RATE).max(Duration::from_millis(1))) }
    }
}

impl Silence {
    fn until(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks new calls for this long from now. Never shortens an earlier pause.
    pub(super) fn ask(&self, wanted: Duration) {
        let until = Instant::now() + wanted.min(LONGEST_SILENCE);
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *asked = Some(asked.map_or(until, |before| before.max(until)));
    }
}

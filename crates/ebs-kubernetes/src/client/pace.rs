//! How fast calls may follow each other: 5 a second, bursts of 10, and none while the server has asked for silence.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebs_types::Tokens;
use tokio::time::Instant;

/// Calls a second, in the long run.
const RATE: f64 = 5.0;
/// Calls at once.
const BURST: f64 = 10.0;
/// A server that asks for a longer silence is asked again after this all the same.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// A bucket of tokens, one for each call.
#[derive(Debug)]
pub(super) struct Pace {
    tokens: Tokens,
    since: Instant,
    silence: Silence,
}

/// Until when the server wants to hear nothing; shared with the calls in flight, which learn it.
#[derive(Debug, Clone, Default)]
pub(super) struct Silence(Arc<Mutex<Option<Instant>>>);

impl Pace {
    pub(super) fn new() -> Self {
        Self { tokens: Tokens::full(BURST), since: Instant::now(), silence: Silence::default() }
    }

    pub(super) fn silence(&self) -> Silence {
        self.silence.clone()
    }

    /// Takes a token, or says how long to wait before asking again.
    pub(super) fn take(&mut self) -> Result<(), Duration> {
        let now = Instant::now();
        self.tokens.refill(now - self.since, RATE, BURST);
        self.since = now;
        if let Some(until) = self.silence.until().filter(|until| *until > now) {
            return Err(until - now);
        }
        // A floor, so that rounding never makes a busy loop.
        if self.tokens.take() { Ok(()) } else { Err(self.tokens.until_next(RATE).max(Duration::from_millis(1))) }
    }
}

impl Silence {
    fn until(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No call for so long from now, and not less than was asked before.
    pub(super) fn ask(&self, wanted: Duration) {
        let until = Instant::now() + wanted.min(LONGEST_SILENCE);
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *asked = Some(asked.map_or(until, |before| before.max(until)));
    }
}

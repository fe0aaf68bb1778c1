//! What one of EC2's token buckets is believed to hold. Pure: the time is given.
//!
//! The belief begins with what EC2 documents. A throttle says that the bucket is empty and that it fills more slowly
//! than believed, because others draw on it: the believed rate is cut by a factor. Each accepted call that had to wait
//! for its token is evidence that the rate is right or higher, and raises it a little. So several drivers on one
//! account come to equal shares (additive increase, multiplicative decrease; `decisions.md` D-22).

use std::time::Duration;

use tokio::time::Instant;

use super::lane::Size;

/// What a throttle leaves of the believed rate.
const CUT: f64 = 0.7;
/// By which part of the documented rate a busy second without throttles raises the belief.
const RAISE: f64 = 0.01;
/// Never less than this part of the documented rate: somebody must go on asking.
const FLOOR: f64 = 0.02;
/// A burst leaves at so many times the documented rate, not at once, so that a throttle comes before all has left.
const BURST: f64 = 10.0;

/// A belief about one of EC2's token buckets.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    documented: Size,
    rate: f64,
    tokens: f64,
    /// When `tokens` was counted.
    counted: Instant,
    /// The next token of a burst.
    spaced: Instant,
    cut: Option<Instant>,
    raised: Instant,
}

/// A token that was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Token {
    at: Instant,
    /// It was the last one: the call went out at the believed rate.
    scarce: bool,
}

impl Bucket {
    /// Full, and as documented.
    pub(crate) fn new(documented: Size, now: Instant) -> Self {
        Self {
            documented,
            rate: documented.per_second,
            tokens: documented.capacity,
            counted: now,
            spaced: now,
            cut: None,
            raised: now,
        }
    }

    /// Tokens a second, as believed.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    /// Takes a token.
    ///
    /// # Errors
    /// When to ask again.
    pub(crate) fn take(&mut self, now: Instant) -> Result<Token, Instant> {
        self.count(now);
        if self.tokens < 1.0 {
            // A little more than exact, so that rounding brings nobody back for nothing.
            let missing = (1.0 - self.tokens) / self.rate + 1e-6;
            return Err((now + Duration::from_secs_f64(missing)).max(self.spaced));
        }
        if now < self.spaced {
            return Err(self.spaced);
        }
        self.tokens -= 1.0;
        self.spaced = now + Duration::from_secs_f64(1.0 / (self.documented.per_second * BURST));
        Ok(Token { at: now, scarce: self.tokens < 1.0 })
    }

    /// Takes a token that nobody will need soon: while the bucket is at least half as full as EC2 documents it.
    pub(crate) fn take_spare(&mut self, now: Instant) -> Option<Token> {
        self.count(now);
        if self.tokens < self.documented.capacity / 2.0 {
            return None;
        }
        self.tokens -= 1.0;
        Some(Token { at: now, scarce: false })
    }

    /// No call was made with the token.
    pub(crate) fn give_back(&mut self, now: Instant) {
        self.count(now);
        self.tokens = (self.tokens + 1.0).min(self.capacity());
    }

    /// EC2 did not throttle the call.
    pub(crate) fn accepted(&mut self, token: Token, now: Instant) {
        if !token.scarce || self.cut.is_some_and(|cut| token.at <= cut) {
            return;
        }
        self.count(now);
        let usual_gap = Duration::from_secs_f64(2.0 / self.rate);
        let busy = now.saturating_duration_since(self.raised).min(usual_gap).as_secs_f64();
        self.raised = now;
        self.rate = (self.rate + RAISE * self.documented.per_second * busy).min(self.documented.per_second);
    }

    /// EC2 throttled the call. True when this is news: the call was made under the present belief.
    pub(crate) fn throttled(&mut self, token: Token, now: Instant) -> bool {
        self.count(now);
        self.tokens = 0.0;
        self.raised = now;
        let is_news = self.cut.is_none_or(|cut| token.at > cut);
        if is_news {
            self.rate = (self.rate * CUT).max(self.documented.per_second * FLOOR);
            self.cut = Some(now);
        }
        is_news
    }

    /// Who takes part of the refill takes part of the reserve.
    fn capacity(&self) -> f64 {
        (self.documented.capacity * self.rate / self.documented.per_second).max(1.0)
    }

    fn count(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.capacity());
        self.counted = self.counted.max(now);
    }
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;

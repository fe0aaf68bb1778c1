//! The estimate of one of EC2's token buckets. The code is pure: the time is a parameter.
//!
//! The estimate starts with the documented size. A throttle shows that other clients use the bucket too, so it
//! multiplies the rate by a factor below 1. If EC2 accepts a call that had to wait for its token, the rate rises a
//! little. In this way several drivers on one account reach equal shares (additive increase, multiplicative decrease).
//! Without evidence, the rate drifts back to the documented one, because the other clients may have stopped.

use std::time::Duration;

use ebs_ec2::Tokens;
use tokio::time::Instant;

use super::bucket_key::BucketSize;

const DECREASE_FACTOR: f64 = 0.7;
/// A busy second without throttles raises the estimated rate by this share of the documented one.
const INCREASE_STEP: f64 = 0.01;
/// The lowest estimated rate, as a share of the documented rate. At a lower rate, too few calls would be made to
/// correct the estimate.
const MIN_RATE_SHARE: f64 = 0.02;
/// The time in which the estimated rate rises from zero to the documented rate if EC2 does not throttle.
const DRIFT_TIME: Duration = Duration::from_secs(600);
/// Within this time after a lone throttle, which leaves the rate unchanged, another throttle decreases the rate.
const LONE_THROTTLE_TIME: Duration = Duration::from_secs(20);
/// The rate of a burst, as a multiple of the documented rate. A throttle arrives before the whole burst is sent.
const BURST_RATE_FACTOR: f64 = 10.0;

#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    documented: BucketSize,
    rate: f64,
    tokens: Tokens,
    refilled_at: Instant,
    next_burst_token: Instant,
    last_decrease: Option<Instant>,
    /// When EC2 last throttled a call and the rate stayed unchanged.
    last_lone_throttle: Option<Instant>,
    last_increase: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Token {
    at: Instant,
    /// True if the call took the last token in the bucket, and so was sent at the estimated rate.
    scarce: bool,
}

impl TokenBucket {
    pub(crate) fn new(documented: BucketSize, now: Instant) -> Self {
        Self {
            documented,
            rate: documented.per_second,
            tokens: Tokens::full(documented.capacity),
            refilled_at: now,
            next_burst_token: now,
            last_decrease: None,
            last_lone_throttle: None,
            last_increase: now,
        }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    pub(crate) fn take(&mut self, now: Instant) -> Result<Token, Instant> {
        self.refill(now);
        if self.tokens.level() >= 1.0 && now < self.next_burst_token {
            return Err(self.next_burst_token);
        }
        if !self.tokens.take() {
            // Wait slightly longer than the exact time, so that rounding does not cause a futile try.
            let missing = self.tokens.until_next(self.rate) + Duration::from_micros(1);
            return Err((now + missing).max(self.next_burst_token));
        }
        self.next_burst_token = now + Duration::from_secs_f64(1.0 / (self.documented.per_second * BURST_RATE_FACTOR));
        Ok(Token { at: now, scarce: self.tokens.level() < 1.0 })
    }

    /// Takes a token if the bucket has at least half of its documented capacity, so that no call needs it soon.
    pub(crate) fn take_spare(&mut self, now: Instant) -> Option<Token> {
        self.refill(now);
        let is_spare = self.tokens.level() >= self.documented.capacity / 2.0;
        (is_spare && self.tokens.take()).then_some(Token { at: now, scarce: false })
    }

    pub(crate) fn refund(&mut self, now: Instant) {
        self.refill(now);
        self.tokens.put_back(self.capacity());
    }

    pub(crate) fn record_accepted(&mut self, token: Token, now: Instant) {
        if !token.scarce || self.last_decrease.is_some_and(|last_decrease| token.at <= last_decrease) {
            return;
        }
        self.refill(now);
        let usual_gap = Duration::from_secs_f64(2.0 / self.rate);
        let busy = now.saturating_duration_since(self.last_increase).min(usual_gap).as_secs_f64();
        self.last_increase = now;
        self.rate = (self.rate + INCREASE_STEP * self.documented.per_second * busy).min(self.documented.per_second);
    }

    /// Records that EC2 throttled the call. Returns true if this decreased the rate. The rate does not decrease if the
    /// call was sent before the last decrease, or if this is a lone throttle at the documented rate.
    pub(crate) fn record_throttled(&mut self, token: Token, now: Instant) -> bool {
        self.refill(now);
        self.tokens.clear();
        self.last_increase = now;
        if self.is_lone_throttle(token, now) {
            self.last_lone_throttle = Some(now);
            return false;
        }
        let is_new = self.last_decrease.is_none_or(|last_decrease| token.at > last_decrease);
        if is_new {
            self.rate = (self.rate * DECREASE_FACTOR).max(self.documented.per_second * MIN_RATE_SHARE);
            self.last_decrease = Some(now);
        }
        is_new
    }

    fn is_lone_throttle(&self, token: Token, now: Instant) -> bool {
        let was_another =
            self.last_lone_throttle.is_some_and(|last| now.saturating_duration_since(last) < LONE_THROTTLE_TIME);
        token.scarce && self.rate >= self.documented.per_second && !was_another
    }

    /// Returns the estimated capacity. Assumes that other drivers use the same share of the capacity as of the refill.
    fn capacity(&self) -> f64 {
        (self.documented.capacity * self.rate / self.documented.per_second).max(1.0)
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.refilled_at);
        let drift = self.documented.per_second * passed.as_secs_f64() / DRIFT_TIME.as_secs_f64();
        self.rate = (self.rate + drift).min(self.documented.per_second);
        self.tokens.refill(passed, self.rate, self.capacity());
        self.refilled_at = self.refilled_at.max(now);
    }
}

#[cfg(test)]
#[path = "token_bucket_tests.rs"]
mod tests;

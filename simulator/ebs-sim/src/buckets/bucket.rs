//! One token bucket.

use std::time::SystemTime;

use ebs_ec2::Tokens;

use super::Rate;

#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    tokens: Tokens,
    at: SystemTime,
}

impl Bucket {
    pub(super) fn full(rate: Rate, now: SystemTime) -> Self {
        Self { tokens: Tokens::full(f64::from(rate.capacity)), at: now }
    }

    /// Takes a token. Returns false if none is available.
    pub(super) fn draw(&mut self, now: SystemTime, rate: Rate, share: f64) -> bool {
        self.level(now, rate, share);
        self.tokens.take()
    }

    /// Returns the current tokens. `share` is the part that other clients leave unused; it scales capacity and refill.
    pub(super) fn level(&mut self, now: SystemTime, rate: Rate, share: f64) -> f64 {
        // A clock that was set back refills nothing.
        let passed = now.duration_since(self.at).unwrap_or_default();
        self.at = self.at.max(now);
        self.tokens.refill(passed, f64::from(rate.per_second) * share, f64::from(rate.capacity) * share);
        self.tokens.level()
    }
}

//! The arithmetic of a token bucket, for callers that learn their rate and capacity at run time.

use std::time::Duration;

/// The tokens in a bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tokens(f64);

impl Tokens {
    /// Returns a full bucket of this capacity.
    pub fn full(capacity: f64) -> Self {
        Self(capacity)
    }

    /// Returns the number of tokens, including fractions.
    pub fn level(self) -> f64 {
        self.0
    }

    /// Adds the tokens that arrive in the time `passed`, up to the capacity.
    pub fn refill(&mut self, passed: Duration, per_second: f64, capacity: f64) {
        self.0 = (self.0 + passed.as_secs_f64() * per_second).min(capacity);
    }

    /// Takes one token. Returns false if the bucket has no whole token.
    pub fn take(&mut self) -> bool {
        let enough = self.0 >= 1.0;
        if enough {
            self.0 -= 1.0;
        }
        enough
    }

    /// Puts one token back, up to the capacity.
    pub fn put_back(&mut self, capacity: f64) {
        self.0 = (self.0 + 1.0).min(capacity);
    }

    /// Empties the bucket.
    pub fn clear(&mut self) {
        self.0 = 0.0;
    }

    /// Returns the time until the bucket has a whole token.
    pub fn until_next(self, per_second: f64) -> Duration {
        Duration::from_secs_f64((1.0 - self.0).max(0.0) / per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_yields_its_capacity_at_once_and_then_its_rate() {
        let mut tokens = Tokens::full(10.0);
        assert_eq!((0..20).filter(|_| tokens.take()).count(), 10);
        assert_eq!(tokens.until_next(5.0), Duration::from_millis(200));
        tokens.refill(Duration::from_secs(1), 5.0, 10.0);
        assert_eq!((0..20).filter(|_| tokens.take()).count(), 5);
        tokens.refill(Duration::from_mins(1), 5.0, 10.0);
        tokens.put_back(10.0);
        assert_eq!(tokens.level(), 10.0, "at most its capacity");
        tokens.clear();
        assert!(!tokens.take());
    }
}

//! Random choices that are repeatable with a seed.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// A source of random choices. The same seed and purpose produce the same choices in the same order.
#[derive(Debug, Clone)]
pub(crate) struct Chance(SmallRng);

impl Chance {
    /// Creates a source for one purpose, independent of sources for other purposes. Without a seed every run differs.
    pub(crate) fn new(seed: Option<u64>, purpose: u64) -> Self {
        let seed = seed.unwrap_or_else(rand::random);
        // Multiply by an odd constant, so that neighbouring purposes get very different seeds.
        Self(SmallRng::seed_from_u64(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns true with the given probability, from 0 to 1.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        probability >= 1.0 || (probability > 0.0 && self.0.random_bool(probability))
    }

    /// Returns a random id in the format of EC2 request ids.
    pub(crate) fn request_id(&mut self) -> String {
        let mut bytes = [0_u8; 16];
        self.0.fill(&mut bytes);
        let text = hex::encode(bytes);
        format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
    }

    /// Returns a random time between both bounds, inclusive, or `least` if `most` is not larger.
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        if most <= least {
            return least;
        }
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.0.random_range(micros(least)..=micros(most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(mut chance: Chance) -> Vec<Duration> {
        (0..20).map(|_| chance.between(Duration::from_millis(1), Duration::from_secs(1))).collect()
    }

    #[test]
    fn seed_and_purpose_determine_the_random_choices() {
        assert_eq!(draws(Chance::new(Some(7), 1)), draws(Chance::new(Some(7), 1)));
        assert_ne!(draws(Chance::new(Some(7), 1)), draws(Chance::new(Some(7), 2)));
        assert_ne!(draws(Chance::new(Some(7), 1)), draws(Chance::new(Some(8), 1)));
        assert_ne!(draws(Chance::new(None, 1)), draws(Chance::new(None, 1)));
    }

    #[test]
    fn probability_1_always_happens_and_0_never() {
        let mut chance = Chance::new(Some(1), 1);
        assert!((0..100).all(|_| chance.happens(1.0)));
        assert!((0..100).all(|_| !chance.happens(0.0)));
        let often = (0..1000).filter(|_| chance.happens(0.3)).count();
        assert!((200..400).contains(&often), "{often}");
        assert_eq!(chance.between(Duration::from_secs(3), Duration::from_secs(1)), Duration::from_secs(3));
    }
}

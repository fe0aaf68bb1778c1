//! Every choice of a cycle, from one number.

use std::time::Duration;

/// splitmix64: a seed means the same choices whatever versions of crates are used.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between 0 and `n` - 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, times: u64) -> bool {
        self.below(100) < times
    }

    pub(crate) fn millis(&mut self, below: u64) -> Duration {
        Duration::from_micros(self.below(below * 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut dice = Dice::new(1_234_567);
        // As published for splitmix64 with the seed 1234567.
        assert_eq!([dice.next(), dice.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }
}

//! Every choice of a run, from one number.

use std::time::Duration;

/// A small generator of its own (splitmix64), so that a seed means the same run whatever versions of crates are used.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x6a09_e667_f3bc_c908)
    }

    /// An independent generator: what one part of a run draws does not move the others.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between 0 and `n` - 1; 0 for an `n` of 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        if n == 0 {
            return 0;
        }
        usize::try_from(self.next() % n).unwrap_or(0)
    }

    /// Between both, ends included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// True so many times in a thousand.
    pub(crate) fn per_mille(&mut self, times: u64) -> bool {
        self.next() % 1000 < times
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut rng = Rng::new(0x6a09_e667_f3bc_c908 ^ 1_234_567);
        // As published for splitmix64 with the seed 1234567.
        assert_eq!([rng.next(), rng.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        assert_eq!(Rng::new(7).next(), Rng::new(7).next());
        assert_ne!(Rng::new(7).next(), Rng::new(8).next());
    }
}

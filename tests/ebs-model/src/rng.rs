//! All random choices of a run, derived from its seed.

use std::time::Duration;

use ebs_ec2::SplitMix64;

/// Our own generator, so that a seed gives the same run with any version of other crates.
#[derive(Debug, Clone)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed ^ 0x6a09_e667_f3bc_c908))
    }

    /// Returns an independent generator, so that one part of a run does not affect the choices of the others.
    pub(crate) fn fork(&mut self) -> Self {
        Self(SplitMix64::new(self.next()))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// Returns a number from 0 to `n` - 1, or 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        usize::try_from(self.0.below(n)).unwrap_or(0)
    }

    /// Returns a number in the range, including both ends.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

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

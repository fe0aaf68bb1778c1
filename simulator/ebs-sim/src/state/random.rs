//! Random numbers from a seed, for repeatable runs, or from the operating system.

use serde::{Deserialize, Serialize};

use super::ids::Kind;

/// A stream of random numbers (SplitMix64). Its state is a single word, which limits its quality. The simulator saves
/// this word, so that a loaded state does not repeat numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Random {
    /// `None`: each number comes from the operating system.
    state: Option<u64>,
}

impl Random {
    /// Creates a stream. Streams of the same seed with different names are independent.
    pub(super) fn new(seed: Option<u64>, name: u64) -> Self {
        Self { state: seed.map(|seed| mixed(seed ^ mixed(name))) }
    }

    /// Continues a stream after a restart. With a seed, it continues where it stopped. Without one, numbers come from
    /// the operating system.
    pub(super) fn resumed(self, seed: Option<u64>) -> Self {
        match (seed, self.state) {
            (None, _) => Self { state: None },
            (Some(_), Some(_)) => self,
            (Some(_), None) => Self::new(seed, 2),
        }
    }

    /// Returns the position of the stream, or `None` if its numbers come from the operating system.
    pub(super) fn mark(&self) -> Option<u64> {
        self.state
    }

    pub(super) fn next(&mut self) -> u64 {
        match &mut self.state {
            Some(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                mixed(*state)
            }
            None => {
                let mut bytes = [0_u8; 8];
                getrandom::fill(&mut bytes).expect("the system's random source answers at any time after boot");
                u64::from_ne_bytes(bytes)
            }
        }
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// Returns 16 hexadecimal digits.
    pub(super) fn hex(&mut self) -> String {
        format!("{:016x}", self.next())
    }

    /// Returns a new id of 17 hexadecimal digits. With devices, the configured seed does not affect ids, even in
    /// repeatable tests: device names derive from ids, and all simulators of a machine share `/dev`.
    pub(super) fn new_id(&mut self, kind: Kind) -> String {
        format!("{}0{}", kind.prefix(), self.hex())
    }
}

/// Hashes a number: similar inputs have very different results.
pub(super) fn mixed(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

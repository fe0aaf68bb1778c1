//! Sources of random numbers: a seed, for repeatable runs, or the system.

use serde::{Deserialize, Serialize};

use super::ids::Kind;

/// A stream of random numbers (SplitMix64). Its quality is limited by its one word of state. That word is saved with
/// the rest, so that a loaded state does not repeat numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Random {
    /// `None`: ask the system each time.
    state: Option<u64>,
}

impl Random {
    /// Creates a stream. Streams of one seed with different names are independent.
    pub(super) fn new(seed: Option<u64>, name: u64) -> Self {
        Self { state: seed.map(|seed| mixed(seed ^ mixed(name))) }
    }

    /// Continues after a restart: with a seed where it stopped, without one from the system.
    pub(super) fn resumed(self, seed: Option<u64>) -> Self {
        match (seed, self.state) {
            (None, _) => Self { state: None },
            (Some(_), Some(_)) => self,
            (Some(_), None) => Self::new(seed, 2),
        }
    }

    /// Returns its position; `None`: it asks the system.
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

    /// Returns a number below `bound`, or 0 if none exists.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// Returns 16 hexadecimal digits.
    pub(super) fn hex(&mut self) -> String {
        format!("{:016x}", self.next())
    }

    /// Returns a new id of 17 hexadecimal digits. With devices the configured seed has no effect on ids, even in
    /// repeatable tests, because the names of devices derive from ids and all simulators of a machine share `/dev`.
    pub(super) fn new_id(&mut self, kind: Kind) -> String {
        format!("{}0{}", kind.prefix(), self.hex())
    }
}

/// Spreads a number over the whole range.
pub(super) fn mixed(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

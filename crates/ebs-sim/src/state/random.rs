//! Where chance comes from: a seed, for runs that repeat, or the system.

use serde::{Deserialize, Serialize};

use super::ids::Kind;

/// A stream of random numbers (SplitMix64). It is as good as its one word of state, which is saved with the rest, so
/// that a state that is loaded again does not draw the same numbers twice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Random {
    /// `None`: ask the system each time.
    state: Option<u64>,
}

impl Random {
    /// A stream. Streams of one seed under different names have nothing to do with each other.
    pub(super) fn new(seed: Option<u64>, name: u64) -> Self {
        Self { state: seed.map(|seed| mixed(seed ^ mixed(name))) }
    }

    /// Goes on after a restart: a run with a seed where it stopped, a run without one from the system.
    pub(super) fn resumed(self, seed: Option<u64>) -> Self {
        match (seed, self.state) {
            (None, _) => Self { state: None },
            (Some(_), Some(_)) => self,
            (Some(_), None) => Self::new(seed, 2),
        }
    }

    /// Where it stands; `None`: it asks the system.
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

    /// A number below `bound`; 0 when there is none.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// 16 hexadecimal digits.
    pub(super) fn hex(&mut self) -> String {
        format!("{:016x}", self.next())
    }

    /// A new id: 17 hexadecimal digits. Without a seed also where tests repeat themselves, since the names of devices
    /// under `/dev` are made of ids and `/dev` is shared by all simulators of a machine.
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

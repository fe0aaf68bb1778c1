//! Learns how long EC2's state transitions typically take.
//!
//! A poll shows only that the transition ended after the previous poll. This module records the time of the previous
//! poll or, without a previous poll, half the time of the first poll, so that later polls start too early rather than too
//! late.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const MAX_SAMPLES: usize = 16;
const MIN_DELAY: Duration = Duration::from_millis(100);
/// The assumed range while no transition of the kind has been seen.
const DEFAULT_RANGE: TypicalRange = TypicalRange { from: Duration::from_millis(500), to: Duration::from_secs(4) };

/// A state transition that EC2 has begun. Each kind has its own typical time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transition {
    /// `creating` to `available`.
    Creating,
    /// `attaching` to `attached`.
    Attaching,
    /// `detaching` until the attachment is gone.
    Detaching,
    /// `modifying` to `optimizing`.
    Modifying,
}

/// When a transition typically ends, measured from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypicalRange {
    /// The transition rarely ends earlier.
    pub(crate) from: Duration,
    /// The transition rarely ends later than this.
    pub(crate) to: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct TransitionTimes([Samples; 4]);

impl TransitionTimes {
    pub(crate) fn typical(&self, transition: Transition) -> TypicalRange {
        self.0[transition as usize].typical()
    }

    /// Records when polls last saw the transition unfinished and first saw it finished, measured from its start.
    pub(crate) fn record(&self, transition: Transition, not_done_at: Option<Duration>, done_at: Duration) {
        self.0[transition as usize].record(not_done_at.unwrap_or(done_at / 2));
    }
}

#[derive(Debug, Default)]
struct Samples(Mutex<VecDeque<Duration>>);

impl Samples {
    fn record(&self, time: Duration) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if times.len() == MAX_SAMPLES {
            times.pop_front();
        }
        times.push_back(time);
    }

    fn typical(&self) -> TypicalRange {
        let mut times: Vec<Duration> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        times.sort();
        // With enough samples, the lowest eighth and the highest eighth are outliers, which do not count.
        let outliers = times.len() / 8;
        match (times.get(outliers), times.iter().nth_back(outliers)) {
            (Some(from), Some(to)) => TypicalRange { from: (*from).max(MIN_DELAY), to: (*to).max(MIN_DELAY) },
            _ => DEFAULT_RANGE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn first_poll_time_is_learned_without_outliers() {
        let times = TransitionTimes::default();
        assert_eq!(times.typical(Transition::Creating), DEFAULT_RANGE);
        for n in 0..14 {
            times.record(Transition::Creating, Some(ms(2_000 + n)), ms(2_400));
        }
        times.record(Transition::Creating, Some(ms(90_000)), ms(90_400));
        times.record(Transition::Creating, None, ms(300));
        let range = times.typical(Transition::Creating);
        assert!((ms(2_000)..ms(2_010)).contains(&range.from), "{range:?}");
        assert!((ms(2_010)..ms(2_020)).contains(&range.to), "{range:?}");
        assert_eq!(times.typical(Transition::Attaching), DEFAULT_RANGE, "each kind has its own");
    }

    #[test]
    fn early_transitions_make_the_first_poll_earlier() {
        let times = TransitionTimes::default();
        for _ in 0..60 {
            let first = times.typical(Transition::Detaching).from;
            times.record(Transition::Detaching, None, first);
        }
        assert_eq!(times.typical(Transition::Detaching).from, MIN_DELAY);
    }
}

//! Learns the typical times of EC2's state transitions.
//!
//! A poll only shows that a transition ended between it and the previous poll. The earlier of the two times is
//! recorded, so that the first poll for the next transition is too early rather than too late. If the first poll
//! already found the end, half of its time is recorded, so that the estimate can decrease.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The number of latest transitions of a kind that are remembered.
const MAX_SAMPLES: usize = 16;
const MIN_DELAY: Duration = Duration::from_millis(100);
/// The range before any transition was seen.
const DEFAULT_RANGE: TypicalRange = TypicalRange { from: Duration::from_millis(500), to: Duration::from_secs(4) };

/// A state transition that EC2 has begun. The typical time of each kind is learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transition {
    /// `creating` to `available`.
    Creating,
    /// `attaching` to `attached`.
    Attaching,
    /// `detaching` to gone.
    Detaching,
    /// `modifying` to `optimizing`.
    Modifying,
}

/// The range of the typical end of a transition, since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypicalRange {
    /// Rarely earlier.
    pub(crate) from: Duration,
    /// Rarely later.
    pub(crate) to: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct TransitionTimes([Samples; 4]);

impl TransitionTimes {
    fn times(&self, transition: Transition) -> &Samples {
        &self.0[transition as usize]
    }

    pub(crate) fn typical(&self, transition: Transition) -> TypicalRange {
        self.times(transition).typical()
    }

    /// Records a transition. The last poll without the end was at `not_done_at`, if there was one, and the end was seen
    /// at `done_at`. Both are since the start of the transition.
    pub(crate) fn record(&self, transition: Transition, not_done_at: Option<Duration>, done_at: Duration) {
        self.times(transition).record(not_done_at.unwrap_or(done_at / 2));
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
        // The outliers, an eighth at either end, do not count if there are enough other samples.
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
    fn first_poll_follows_typical_times_without_outliers() {
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
    fn early_transitions_move_the_first_poll_forward() {
        let times = TransitionTimes::default();
        for _ in 0..60 {
            let first = times.typical(Transition::Detaching).from;
            times.record(Transition::Detaching, None, first);
        }
        assert_eq!(times.typical(Transition::Detaching).from, MIN_DELAY);
    }
}

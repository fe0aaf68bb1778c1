//! How long EC2's state transitions usually take, learned from those that were waited for.
//!
//! A poll tells only that a transition was done between it and the poll before. The earlier of the two is recorded, so
//! that the first poll for the next transition rather comes early than late; and where the very first poll found it
//! done, half of its time, so that the estimate comes down again.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Transitions of a kind that are remembered, the latest ones.
const MAX_SAMPLES: usize = 16;
/// The shortest time before a first poll.
const MIN_DELAY: Duration = Duration::from_millis(100);
/// Before any transition was seen.
const DEFAULT_RANGE: TypicalRange = TypicalRange { from: Duration::from_millis(500), to: Duration::from_secs(4) };

/// A state transition that EC2 has begun. How long each kind takes is learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// `creating` to `available`.
    Creating,
    /// `attaching` to `attached`.
    Attaching,
    /// `detaching` to gone.
    Detaching,
    /// `modifying` to `optimizing`.
    Modifying,
}

/// When a transition is usually done, counted from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypicalRange {
    /// Seldom earlier.
    pub from: Duration,
    /// Seldom later.
    pub to: Duration,
}

/// How long the transitions that were waited for have taken lately.
#[derive(Debug, Default)]
pub struct TransitionTimes([Samples; 4]);

impl TransitionTimes {
    fn times(&self, transition: Transition) -> &Samples {
        &self.0[transition as usize]
    }

    /// When such a transition is usually done; from 0.5 to 4 s before any was seen.
    pub fn typical(&self, transition: Transition) -> TypicalRange {
        self.times(transition).typical()
    }

    /// A transition was not done yet after `not_done_at`, if there was such a poll, and done after `done_at`; both since
    /// its beginning.
    pub fn record(&self, transition: Transition, not_done_at: Option<Duration>, done_at: Duration) {
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
        // Outliers, an eighth at either end, do not count once there are enough others.
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

    /// When to look first follows what such changes took lately.
    #[test]
    fn the_first_poll_follows_what_transitions_took_and_outliers_do_not_count() {
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
    fn transitions_that_are_done_at_the_first_poll_bring_it_forward_step_by_step() {
        let times = TransitionTimes::default();
        for _ in 0..60 {
            let first = times.typical(Transition::Detaching).from;
            times.record(Transition::Detaching, None, first);
        }
        assert_eq!(times.typical(Transition::Detaching).from, MIN_DELAY);
    }
}

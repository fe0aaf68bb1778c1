//! How long EC2's changes usually take, learned from those that were watched.
//!
//! A look tells only that a change was done between it and the look before. What is kept is the earlier of the two, so
//! that the first look at the next change rather comes early than late; and where the very first look found the change
//! done, half of its time, so that the belief comes down again.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::wait::Change;

/// So many changes of a kind are remembered.
const REMEMBERED: usize = 16;
/// The shortest time before a first look.
const SHORTEST: Duration = Duration::from_millis(100);
/// Before anything was learned.
const UNKNOWN: Usual = Usual { from: Duration::from_millis(500), to: Duration::from_secs(4) };

/// When a change is usually done, from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usual {
    /// Seldom earlier.
    pub(crate) from: Duration,
    /// Seldom later.
    pub(crate) to: Duration,
}

/// What is known of all kinds of change.
#[derive(Debug, Default)]
pub(crate) struct UsualTimes {
    creating: Times,
    attaching: Times,
    detaching: Times,
    modifying: Times,
}

impl UsualTimes {
    fn times(&self, change: Change) -> &Times {
        match change {
            Change::Creating => &self.creating,
            Change::Attaching => &self.attaching,
            Change::Detaching => &self.detaching,
            Change::Modifying => &self.modifying,
        }
    }

    /// When such a change is usually done.
    pub(crate) fn of(&self, change: Change) -> Usual {
        self.times(change).usual()
    }

    /// A change was not done yet after `before`, if there was such a look, and done after `after`.
    pub(crate) fn learn(&self, change: Change, before: Option<Duration>, after: Duration) {
        self.times(change).learn(before.unwrap_or(after / 2));
    }
}

/// The latest times of one kind of change.
#[derive(Debug, Default)]
struct Times(Mutex<VecDeque<Duration>>);

impl Times {
    fn learn(&self, time: Duration) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if times.len() == REMEMBERED {
            times.pop_front();
        }
        times.push_back(time);
    }

    fn usual(&self) -> Usual {
        let mut times: Vec<Duration> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        times.sort();
        // The one or two odd ones at either end do not count, once there are enough others.
        let odd = times.len() / 8;
        match (times.get(odd), times.iter().nth_back(odd)) {
            (Some(from), Some(to)) => Usual { from: (*from).max(SHORTEST), to: (*to).max(SHORTEST) },
            _ => UNKNOWN,
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
    fn the_first_look_follows_what_changes_took_and_odd_ones_do_not_count() {
        let times = UsualTimes::default();
        assert_eq!(times.of(Change::Creating), UNKNOWN);
        for n in 0..14 {
            times.learn(Change::Creating, Some(ms(2_000 + n)), ms(2_400));
        }
        times.learn(Change::Creating, Some(ms(90_000)), ms(90_400));
        times.learn(Change::Creating, None, ms(300));
        let usual = times.of(Change::Creating);
        assert!((ms(2_000)..ms(2_010)).contains(&usual.from), "{usual:?}");
        assert!((ms(2_010)..ms(2_020)).contains(&usual.to), "{usual:?}");
        assert_eq!(times.of(Change::Attaching), UNKNOWN, "each kind has its own");
    }

    #[test]
    fn changes_that_are_done_at_the_first_look_bring_it_forward_step_by_step() {
        let times = UsualTimes::default();
        for _ in 0..60 {
            let first = times.of(Change::Detaching).from;
            times.learn(Change::Detaching, None, first);
        }
        assert_eq!(times.of(Change::Detaching).from, SHORTEST);
    }
}

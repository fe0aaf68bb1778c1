//! Decides when a batcher polls, and for which subscribers. The code is pure: the time is a parameter.
//!
//! The rules:
//! - With no call in flight, a call is made as soon as one subscriber is due. Otherwise, subscribers wait. One hanging
//!   call delays the next by 2 s, two by 4 s. However many hang, a new one is sent at least every 8 s.
//! - A call covers as many subscribers as fit, whether due or not, because an additional key costs nothing.
//! - Under load, calls are 0.4 s apart, or more if the rate limit is low. A short burst may be closer together.
//! - A subscriber is due again after 0.4 s, until the typical time of its transition is over. After that, the interval
//!   grows (back-off).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// The shortest interval between two polls for one subscriber, and between two calls under load.
const MIN_INTERVAL: Duration = Duration::from_millis(400);
const MAX_INTERVAL: Duration = Duration::from_secs(5);
/// How long each call in flight delays the next one, so that hanging calls do not reach [`MAX_IN_FLIGHT`] at once.
const SLOW_CALL: Duration = Duration::from_secs(2);
/// The maximum number of calls in flight per batcher. At this number, all calls but the newest are slow.
const MAX_IN_FLIGHT: u32 = 4;
/// From this number of subscribers on, calls are [`MIN_INTERVAL`] apart. With fewer, they are proportionally closer.
const FULL_LOAD: u32 = 8;
/// The number of calls that may follow each other without an interval after a quiet time.
const BURST: f64 = 3.0;

#[derive(Debug, Clone, Copy)]
pub(crate) struct PollTimes {
    /// The earliest time of the first poll.
    pub(crate) first: Instant,
    /// The time from which the intervals grow.
    pub(crate) back_off_from: Instant,
}

#[derive(Debug)]
struct Entry<K> {
    key: K,
    times: PollTimes,
    /// When the last call for this subscriber was sent.
    polled: Option<Instant>,
    /// Whether the last call for this subscriber is still in flight.
    in_flight: bool,
    /// The send time of the latest call that gave the subscriber a result.
    observed: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Grouping {
    /// Each call covers at most this many keys.
    Batched(usize),
    /// Each call covers one key and is made as soon as the key is due.
    Single,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextCall {
    /// Make no call until a subscriber is added or a call returns.
    Idle,
    /// Make the next call at this instant or later.
    At(Instant),
}

#[derive(Debug)]
pub(super) struct PollSchedule<K> {
    grouping: Grouping,
    entries: BTreeMap<u64, Entry<K>>,
    next_id: u64,
    /// How many calls may be made without an interval, as of `credited`.
    credit: f64,
    credited: Instant,
}

impl<K: Ord + Clone> PollSchedule<K> {
    pub(super) fn new(grouping: Grouping, now: Instant) -> Self {
        Self { grouping, entries: BTreeMap::new(), next_id: 0, credit: BURST, credited: now }
    }

    /// Adds a subscriber. It gets no results of earlier calls.
    pub(super) fn add(&mut self, key: K, times: PollTimes) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.entries.insert(id, Entry { key, times, polled: None, in_flight: false, observed: None });
        id
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.entries.remove(&id);
    }

    /// Returns the interval between two calls. Polls use at most half of the rate limit.
    pub(super) fn spacing(&self, calls_per_second: f64) -> Duration {
        let waiting = u32::try_from(self.entries.len()).unwrap_or(FULL_LOAD).clamp(1, FULL_LOAD);
        (MIN_INTERVAL * waiting / FULL_LOAD).max(Duration::from_secs_f64(2.0 / calls_per_second))
    }

    /// Returns when to make the next call. `in_flight` lists when the calls in flight were sent, the latest last.
    pub(super) fn next_call(&self, now: Instant, spacing: Duration, in_flight: &[Instant]) -> NextCall {
        let Some(due) = self.entries.values().filter_map(|e| self.due(e)).min() else { return NextCall::Idle };
        let Grouping::Batched(_) = self.grouping else { return NextCall::At(due) };
        let in_flight_count = u32::try_from(in_flight.len()).unwrap_or(MAX_IN_FLIGHT);
        let free = match in_flight.last() {
            None => now,
            Some(_) if in_flight_count >= MAX_IN_FLIGHT => return NextCall::Idle,
            Some(latest) => *latest + SLOW_CALL * in_flight_count,
        };
        let credit = self.credit_at(now, spacing);
        let spaced = if credit >= 1.0 { now } else { now + spacing.mul_f64(1.0 - credit) };
        NextCall::At(due.max(free).max(spaced))
    }

    /// Starts a call and returns its subscribers with their keys. Returns nothing if no subscriber is due.
    pub(super) fn start_batch(&mut self, now: Instant, spacing: Duration) -> Vec<(u64, K)> {
        let taken = self.due_batch(now);
        if taken.is_empty() {
            return taken;
        }
        self.credit = (self.credit_at(now, spacing) - 1.0).max(0.0);
        self.credited = now;
        for (id, _) in &taken {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.polled = Some(now);
                entry.in_flight = true;
            }
        }
        taken
    }

    fn due_batch(&self, now: Instant) -> Vec<(u64, K)> {
        let mut order: Vec<(Instant, u64)> =
            self.entries.iter().filter_map(|(id, e)| Some((self.due(e)?, *id))).collect();
        // A subscriber whose slow call is still in flight joins another call only once it is due again.
        order.retain(|(due, id)| *due <= now || !self.entries[id].in_flight);
        order.sort();
        if order.first().is_none_or(|(due, _)| *due > now) {
            return Vec::new();
        }
        let most = match self.grouping {
            Grouping::Batched(most) => most,
            Grouping::Single => {
                order.truncate(1);
                1
            }
        };
        let mut keys = BTreeSet::new();
        let mut taken = Vec::new();
        for (_, id) in order {
            let key = &self.entries[&id].key;
            if keys.contains(key) || keys.len() < most {
                keys.insert(key.clone());
                taken.push((id, key.clone()));
            }
        }
        taken
    }

    /// Records that the call sent at `sent` returned. Returns false if the subscriber has left or has a later result.
    pub(super) fn finish(&mut self, id: u64, sent: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        if entry.polled == Some(sent) {
            entry.in_flight = false;
        }
        let is_newer = entry.observed.is_none_or(|observed| observed < sent);
        if is_newer {
            entry.observed = Some(sent);
        }
        is_newer
    }

    fn due(&self, entry: &Entry<K>) -> Option<Instant> {
        let Some(polled) = entry.polled else { return (!entry.in_flight).then_some(entry.times.first) };
        let over = polled.saturating_duration_since(entry.times.back_off_from);
        let interval = (over / 2).clamp(MIN_INTERVAL, MAX_INTERVAL);
        match self.grouping {
            _ if !entry.in_flight => Some(polled + interval),
            Grouping::Batched(_) => Some(polled + interval.max(SLOW_CALL)),
            Grouping::Single => None,
        }
    }

    fn credit_at(&self, now: Instant, spacing: Duration) -> f64 {
        let passed = now.saturating_duration_since(self.credited).as_secs_f64();
        (self.credit + passed / spacing.as_secs_f64()).min(BURST)
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;

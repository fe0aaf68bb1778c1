//! Who waits at a desk, and when which of them are asked for. Pure: the time is given.
//!
//! The rules (`decisions.md` D-20, D-21):
//! - With no call under way, whoever is due is asked for at once. While one is under way, the others collect.
//! - A call asks for everybody it has room for, due or not: that costs nothing, and the more there are the less each
//!   costs.
//! - Under load calls keep 0.4 s apart, or more where the budget is small. A few in a row may be closer.
//! - Who was not yet done is due again after 0.4 s, until the usual time of its change is over; then after longer and
//!   longer times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// The least time between two looks at one thing, and between two calls under load.
const MIN_INTERVAL: Duration = Duration::from_millis(400);
/// The longest time between two looks at one thing.
const MAX_INTERVAL: Duration = Duration::from_secs(5);
/// A call that takes longer no longer holds up the next one.
const SLOW_CALL: Duration = Duration::from_secs(2);
/// So many calls of one desk may be under way, all but the last of them slow.
const MAX_IN_FLIGHT: usize = 4;
/// With so many waiting it is load.
const FULL_LOAD: u32 = 8;
/// So many calls may follow each other at once after a quiet time.
const BURST: f64 = 3.0;

/// When somebody wants to see something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PollTimes {
    /// The first look.
    pub(crate) first: Instant,
    /// From then on less and less often.
    pub(crate) back_off_from: Instant,
}

#[derive(Debug)]
struct Entry<K> {
    key: K,
    times: PollTimes,
    /// When the last call that asked for it was sent.
    polled: Option<Instant>,
    /// That call is under way, or promised.
    in_flight: bool,
    /// When the latest call was sent that it was told of.
    observed: Option<Instant>,
}

/// How calls are grouped.
#[derive(Debug, Clone, Copy)]
pub(super) enum Grouping {
    /// At most so many keys a call.
    Batched(usize),
    /// Each alone, at once.
    Single,
}

/// What the clerk is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextCall {
    /// Nobody waits for anything but calls that are under way.
    Idle,
    /// A call, not before then.
    At(Instant),
}

/// Everybody who waits at one desk.
#[derive(Debug)]
pub(super) struct PollSchedule<K> {
    grouping: Grouping,
    entries: BTreeMap<u64, Entry<K>>,
    next_id: u64,
    /// Calls that may be made in a row, and when that was counted.
    credit: f64,
    credited: Instant,
}

impl<K: Ord + Clone> PollSchedule<K> {
    pub(super) fn new(grouping: Grouping, now: Instant) -> Self {
        Self { grouping, entries: BTreeMap::new(), next_id: 0, credit: BURST, credited: now }
    }

    /// Somebody comes. Calls sent before say nothing to it.
    pub(super) fn add(&mut self, key: K, times: PollTimes) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.entries.insert(id, Entry { key, times, polled: None, in_flight: false, observed: None });
        id
    }

    /// Somebody goes.
    pub(super) fn remove(&mut self, id: u64) {
        self.entries.remove(&id);
    }

    /// The time to be kept between calls: under load, and never more than half of what EC2 takes.
    pub(super) fn spacing(&self, calls_per_second: f64) -> Duration {
        let waiting = u32::try_from(self.entries.len()).unwrap_or(FULL_LOAD).clamp(1, FULL_LOAD);
        (MIN_INTERVAL * waiting / FULL_LOAD).max(Duration::from_secs_f64(2.0 / calls_per_second))
    }

    /// What comes next, with calls under way that began then, the latest last.
    pub(super) fn next_call(&self, now: Instant, spacing: Duration, in_flight: &[Instant]) -> NextCall {
        let Some(due) = self.entries.values().filter_map(|e| self.due(e)).min() else { return NextCall::Idle };
        let Grouping::Batched(_) = self.grouping else { return NextCall::At(due) };
        let free = match in_flight.last() {
            None => now,
            Some(_) if in_flight.len() >= MAX_IN_FLIGHT => return NextCall::Idle,
            Some(latest) => *latest + SLOW_CALL,
        };
        let credit = self.credit_at(now, spacing);
        let spaced = if credit >= 1.0 { now } else { now + spacing.mul_f64(1.0 - credit) };
        NextCall::At(due.max(free).max(spaced))
    }

    /// Promises a call of its own to whoever is due first.
    pub(super) fn reserve(&mut self, now: Instant) -> Option<u64> {
        let due = self.entries.iter().filter_map(|(id, e)| self.due(e).map(|due| (due, *id)));
        let (_, id) = due.filter(|(due, _)| *due <= now).min()?;
        self.entries.get_mut(&id)?.in_flight = true;
        Some(id)
    }

    /// A call leaves: for whom, and what each wants. With a promise only for that one; empty when nobody is due.
    pub(super) fn start_batch(&mut self, now: Instant, spacing: Duration, reserved: Option<u64>) -> Vec<(u64, K)> {
        let taken = match reserved {
            Some(id) => self.entries.get(&id).map(|e| (id, e.key.clone())).into_iter().collect(),
            None => self.due_batch(now),
        };
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
        let Grouping::Batched(most) = self.grouping else { return Vec::new() };
        let mut order: Vec<(Instant, u64)> =
            self.entries.iter().filter_map(|(id, e)| Some((self.due(e)?, *id))).collect();
        // Of those asked for by a call that is slow, only the ones that are due.
        order.retain(|(due, id)| *due <= now || !self.entries[id].in_flight);
        order.sort();
        if order.first().is_none_or(|(due, _)| *due > now) {
            return Vec::new();
        }
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

    /// The promised call will not be made.
    pub(super) fn cancel_reservation(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.in_flight = false;
        }
    }

    /// The call that was sent then is back; false for who has gone, or was told of a later one already.
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

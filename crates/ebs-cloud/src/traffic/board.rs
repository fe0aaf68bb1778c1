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
const LEAST: Duration = Duration::from_millis(400);
/// The longest time between two looks at one thing.
const LONGEST: Duration = Duration::from_secs(5);
/// A call that takes longer no longer holds up the next one.
const SLOW: Duration = Duration::from_secs(2);
/// So many calls of one desk may be under way, all but the last of them slow.
const MOST_UNDER_WAY: usize = 4;
/// With so many waiting it is load.
const LOAD: u32 = 8;
/// So many calls may follow each other at once after a quiet time.
const IN_A_ROW: f64 = 3.0;

/// When somebody wants to see something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct First {
    /// The first look.
    pub(crate) at: Instant,
    /// From then on less and less often.
    pub(crate) patient_from: Instant,
}

#[derive(Debug)]
struct Entry<K> {
    key: K,
    first: First,
    /// When the last call that asked for it was sent.
    asked: Option<Instant>,
    /// That call is under way, or promised.
    under_way: bool,
    /// When the latest call was sent that it was told of.
    told: Option<Instant>,
}

/// How calls are grouped.
#[derive(Debug, Clone, Copy)]
pub(super) enum Grouping {
    /// At most so many keys a call.
    Together(usize),
    /// Each alone, at once.
    Alone,
}

/// What the clerk is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nobody waits for anything but calls that are under way.
    Nothing,
    /// A call, not before then.
    Call(Instant),
}

/// Everybody who waits at one desk.
#[derive(Debug)]
pub(super) struct Board<K> {
    grouping: Grouping,
    entries: BTreeMap<u64, Entry<K>>,
    next_id: u64,
    /// Calls that may be made in a row, and when that was counted.
    credit: f64,
    counted: Instant,
}

impl<K: Ord + Clone> Board<K> {
    pub(super) fn new(grouping: Grouping, now: Instant) -> Self {
        Self { grouping, entries: BTreeMap::new(), next_id: 0, credit: IN_A_ROW, counted: now }
    }

    /// Somebody comes. Calls sent before say nothing to it.
    pub(super) fn enter(&mut self, key: K, first: First) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.entries.insert(id, Entry { key, first, asked: None, under_way: false, told: None });
        id
    }

    /// Somebody goes.
    pub(super) fn leave(&mut self, id: u64) {
        self.entries.remove(&id);
    }

    /// The time to be kept between calls: under load, and never more than half of what EC2 takes.
    pub(super) fn spacing(&self, calls_per_second: f64) -> Duration {
        let waiting = u32::try_from(self.entries.len()).unwrap_or(LOAD).clamp(1, LOAD);
        (LEAST * waiting / LOAD).max(Duration::from_secs_f64(2.0 / calls_per_second))
    }

    /// What comes next, with calls under way that began then, the latest last.
    pub(super) fn next(&self, now: Instant, spacing: Duration, under_way: &[Instant]) -> Next {
        let Some(due) = self.entries.values().filter_map(|e| self.due(e)).min() else { return Next::Nothing };
        let Grouping::Together(_) = self.grouping else { return Next::Call(due) };
        let free = match under_way.last() {
            None => now,
            Some(_) if under_way.len() >= MOST_UNDER_WAY => return Next::Nothing,
            Some(latest) => *latest + SLOW,
        };
        let credit = self.credit_at(now, spacing);
        let spaced = if credit >= 1.0 { now } else { now + spacing.mul_f64(1.0 - credit) };
        Next::Call(due.max(free).max(spaced))
    }

    /// Promises a call of its own to whoever is due first.
    pub(super) fn promise(&mut self, now: Instant) -> Option<u64> {
        let due = self.entries.iter().filter_map(|(id, e)| self.due(e).map(|due| (due, *id)));
        let (_, id) = due.filter(|(due, _)| *due <= now).min()?;
        self.entries.get_mut(&id)?.under_way = true;
        Some(id)
    }

    /// A call leaves: for whom, and what each wants. With a promise only for that one; empty when nobody is due.
    pub(super) fn take(&mut self, now: Instant, spacing: Duration, promised: Option<u64>) -> Vec<(u64, K)> {
        let taken = match promised {
            Some(id) => self.entries.get(&id).map(|e| (id, e.key.clone())).into_iter().collect(),
            None => self.most_due(now),
        };
        if taken.is_empty() {
            return taken;
        }
        self.credit = (self.credit_at(now, spacing) - 1.0).max(0.0);
        self.counted = now;
        for (id, _) in &taken {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.asked = Some(now);
                entry.under_way = true;
            }
        }
        taken
    }

    fn most_due(&self, now: Instant) -> Vec<(u64, K)> {
        let Grouping::Together(most) = self.grouping else { return Vec::new() };
        let mut order: Vec<(Instant, u64)> =
            self.entries.iter().filter_map(|(id, e)| Some((self.due(e)?, *id))).collect();
        // Of those asked for by a call that is slow, only the ones that are due.
        order.retain(|(due, id)| *due <= now || !self.entries[id].under_way);
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
    pub(super) fn break_promise(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.under_way = false;
        }
    }

    /// The call that was sent then is back; false for who has gone, or was told of a later one already.
    pub(super) fn returned(&mut self, id: u64, sent: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        if entry.asked == Some(sent) {
            entry.under_way = false;
        }
        let is_news = entry.told.is_none_or(|told| told < sent);
        if is_news {
            entry.told = Some(sent);
        }
        is_news
    }

    fn due(&self, entry: &Entry<K>) -> Option<Instant> {
        let Some(asked) = entry.asked else { return (!entry.under_way).then_some(entry.first.at) };
        let over = asked.saturating_duration_since(entry.first.patient_from);
        let interval = (over / 2).clamp(LEAST, LONGEST);
        match self.grouping {
            _ if !entry.under_way => Some(asked + interval),
            Grouping::Together(_) => Some(asked + interval.max(SLOW)),
            Grouping::Alone => None,
        }
    }

    fn credit_at(&self, now: Instant, spacing: Duration) -> f64 {
        let passed = now.saturating_duration_since(self.counted).as_secs_f64();
        (self.credit + passed / spacing.as_secs_f64()).min(IN_A_ROW)
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;

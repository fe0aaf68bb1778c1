//! Eventual consistency: reads may show old versions of objects.
//!
//! Every change keeps the previous version of an object for as long as a read may lag. A stale read swaps those
//! versions into the state, is answered like any other, and swaps them out again. Mutating calls never see them.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime};

use crate::api::{Call, Fault, Reply};
use crate::config::EngineConfig;

use super::Sim;
use super::faults;
use super::ids::Kind;
use super::instances::Instance;
use super::model::{Snapshot, Volume};
use super::random::Random;

/// Maximum lag of EC2's replies.
pub(super) const MAX_LAG: Duration = Duration::from_secs(15);

/// Old versions for reads.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Past {
    /// Keep old versions even while reads do not lag by default, because a single read may be made to lag.
    kept: bool,
    max_lag: Duration,
    /// Lag of instances, which replaces the default.
    instances_max_lag: Option<Duration>,
    /// The revision up to which changes have been recorded.
    noted: u64,
    volumes: Log<Volume>,
    snapshots: Log<Snapshot>,
    instances: Log<Instance>,
}

/// The changes of objects of one kind.
#[derive(Debug, Clone, PartialEq)]
struct Log<T> {
    /// The versions of the last comparison.
    last: BTreeMap<String, T>,
    /// Old versions with the end of their validity, oldest first; `None`: it did not exist.
    old: BTreeMap<String, VecDeque<(SystemTime, Option<T>)>>,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self { last: BTreeMap::new(), old: BTreeMap::new() }
    }
}

impl<T: Clone + PartialEq> Log<T> {
    /// Compares all objects with their last versions. Drops versions older than `kept_for`.
    fn note<'a>(&mut self, now: SystemTime, kept_for: Duration, objects: impl Iterator<Item = (&'a String, &'a T)>)
    where
        T: 'a,
    {
        let mut before = std::mem::take(&mut self.last);
        let mut changed: Vec<(String, Option<T>)> = Vec::new();
        for (id, object) in objects {
            let was = before.remove(id);
            let same = was.as_ref() == Some(object);
            let kept = match was {
                Some(was) if same => was,
                was => {
                    changed.push((id.clone(), was));
                    object.clone()
                }
            };
            self.last.insert(id.clone(), kept);
        }
        changed.extend(before.into_iter().map(|(id, was)| (id, Some(was))));
        for (id, was) in changed {
            self.old.entry(id).or_default().push_back((now, was));
        }
        self.old.retain(|_, old| {
            while old.front().is_some_and(|(until, _)| *until + kept_for <= now) {
                old.pop_front();
            }
            !old.is_empty()
        });
    }

    /// Returns false for an object that did not exist at that time and has been created since.
    fn knew(&self, id: &str, at: SystemTime) -> bool {
        let was = self.old.get(id).and_then(|old| old.iter().find(|(until, _)| *until > at));
        was.is_none_or(|(_, was)| was.is_some())
    }

    /// Returns the objects whose version differs in a read with this lag for each.
    fn seen(&self, now: SystemTime, mut lag: impl FnMut() -> Duration) -> Vec<(String, Option<T>)> {
        let mut seen = Vec::new();
        for (id, old) in &self.old {
            let at = now.checked_sub(lag()).unwrap_or(now);
            if let Some((_, was)) = old.iter().find(|(until, _)| *until > at) {
                seen.push((id.clone(), was.clone()));
            }
        }
        seen
    }
}

/// Returns a random lag of a read for one object. Half of the objects are current, as most are in EC2.
fn drawn(chance: &mut Random, max: Duration) -> Duration {
    if chance.below(2) == 0 {
        return Duration::ZERO;
    }
    Duration::from_millis(chance.below(u64::try_from(max.as_millis()).unwrap_or(0) + 1))
}

/// Puts objects, or their absence, into a map. Returns the replaced values.
fn put<T>(map: &mut BTreeMap<String, T>, objects: Vec<(String, Option<T>)>) -> Vec<(String, Option<T>)> {
    let put = |(id, object): (String, Option<T>)| {
        let before = match object {
            Some(object) => map.insert(id.clone(), object),
            None => map.remove(&id),
        };
        (id, before)
    };
    objects.into_iter().map(put).collect()
}

impl Past {
    /// Creates the history for reads that lag up to this long by default.
    pub(super) fn lagging(config: &EngineConfig) -> Self {
        let instances_max_lag = config.account.oddities.instances_max_lag();
        Self { max_lag: config.consistency.max_lag.min(MAX_LAG), instances_max_lag, ..Self::default() }
    }

    fn lags(&self) -> bool {
        !self.max_lag.is_zero() || self.instances_max_lag.is_some()
    }
}

impl Sim {
    /// Sets the default lag of reads. Current stale reads may be older.
    pub(crate) fn set_max_lag(&mut self, now: SystemTime, max_lag: Duration) {
        self.past.max_lag = max_lag.min(MAX_LAG);
        self.lag_from(now);
    }

    /// Returns the default lag of reads.
    pub(crate) fn max_lag(&self) -> Duration {
        self.past.max_lag
    }

    /// Starts the history, if reads may lag.
    pub(super) fn lag_from(&mut self, now: SystemTime) {
        if self.past.lags() {
            self.keep_past(now);
        }
    }

    /// Keeps changes from now on, so that single reads can be made to lag ([`crate::faults::FaultInjection::lag`]).
    pub(crate) fn keep_past(&mut self, now: SystemTime) {
        if !self.past.kept {
            self.past.kept = true;
            self.past.noted = 0;
            self.note_changes(now);
            // Existing objects have no older version.
            self.past.volumes.old.clear();
            self.past.snapshots.old.clear();
            self.past.instances.old.clear();
        }
    }

    /// Records the changes since its last call.
    pub(super) fn note_changes(&mut self, now: SystemTime) {
        if !self.past.kept || self.past.noted == self.revision {
            return;
        }
        self.past.noted = self.revision;
        self.past.volumes.note(now, MAX_LAG, self.volumes.iter());
        self.past.snapshots.note(now, MAX_LAG, self.snapshots.iter());
        let kept_for = self.past.instances_max_lag.unwrap_or_default().max(MAX_LAG);
        self.past.instances.note(now, kept_for, self.instances.iter().map(|i| (&i.id, i)));
    }

    /// Rejects a mutating call for an object that is too new for a stale read, if that is enabled
    /// ([`crate::config::Oddities::changes_meet_the_lag`]).
    pub(super) fn meet_lag(&mut self, now: SystemTime, call: &Call) -> Result<(), Fault> {
        if !self.policy.account.oddities.changes_meet_the_lag || !self.past.kept {
            return Ok(());
        }
        for id in super::named::ids_of(call) {
            let at = now.checked_sub(drawn(&mut self.lags, self.past.max_lag)).unwrap_or(now);
            match Kind::of(id) {
                Some(Kind::Volume) if !self.past.volumes.knew(id, at) => return Err(faults::no_such_volume(id)),
                Some(Kind::Snapshot) if !self.past.snapshots.knew(id, at) => return Err(faults::no_such_snapshot(id)),
                Some(Kind::Instance) if !self.past.instances.knew(id, at) => return Err(faults::no_such_instance(id)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Executes a read with a forced lag, or with a random one for each object.
    pub(super) fn look(&mut self, now: SystemTime, call: Call, forced: Option<Duration>) -> Result<Reply, Fault> {
        if !self.past.kept || (forced.is_none() && !self.past.lags()) {
            return self.carry_out(now, call);
        }
        let chance = &mut self.lags;
        let mut lag = |max: Duration| match forced {
            Some(lag) => lag.min(MAX_LAG),
            None => drawn(chance, max),
        };
        let (max, max_of_instances) = (self.past.max_lag, self.past.instances_max_lag.unwrap_or(self.past.max_lag));
        let volumes = self.past.volumes.seen(now, || lag(max));
        let snapshots = self.past.snapshots.seen(now, || lag(max));
        let instances = self.past.instances.seen(now, || lag(max_of_instances));
        let volumes = put(&mut self.volumes, volumes);
        let snapshots = put(&mut self.snapshots, snapshots);
        let present = (!instances.is_empty()).then(|| {
            let mut seen = self.instances.clone();
            for (id, was) in instances {
                let at = seen.iter().position(|i| i.id == id);
                match (at, was) {
                    (Some(at), Some(was)) => seen[at] = was,
                    (Some(at), None) => drop(seen.remove(at)),
                    (None, Some(was)) => seen.push(was),
                    (None, None) => {}
                }
            }
            std::mem::replace(&mut self.instances, seen)
        });
        let reply = self.carry_out(now, call);
        put(&mut self.volumes, volumes);
        put(&mut self.snapshots, snapshots);
        if let Some(present) = present {
            self.instances = present;
        }
        reply
    }
}

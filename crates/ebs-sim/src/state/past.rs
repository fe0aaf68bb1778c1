//! Eventual consistency: reads may show objects as they were a while ago.
//!
//! Every change leaves behind what an object was before, for as long as a read may lag. A lagging read swaps those
//! into the state, is answered like any other, and swaps them out again; calls that change something never see them.

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

/// EC2's answers lag by no more than this.
pub(super) const MAX_LAG: Duration = Duration::from_secs(15);

/// What reads may show instead of the present.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Past {
    /// Changes are kept, also while reads do not lag by themselves: a single one may be made to.
    kept: bool,
    max_lag: Duration,
    /// Instances lag this long instead.
    instances_max_lag: Option<Duration>,
    /// The revision up to which changes have been noted.
    noted: u64,
    volumes: Log<Volume>,
    snapshots: Log<Snapshot>,
    instances: Log<Instance>,
}

/// The changes of objects of one kind.
#[derive(Debug, Clone, PartialEq)]
struct Log<T> {
    /// As they were when they were last looked at.
    last: BTreeMap<String, T>,
    /// What each was until when, oldest first; `None`: it was not there.
    old: BTreeMap<String, VecDeque<(SystemTime, Option<T>)>>,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self { last: BTreeMap::new(), old: BTreeMap::new() }
    }
}

impl<T: Clone + PartialEq> Log<T> {
    /// Compares all objects with what they were; what is older than `kept_for` is forgotten.
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

    /// False for what was not there at that time, and is there since.
    fn knew(&self, id: &str, at: SystemTime) -> bool {
        let was = self.old.get(id).and_then(|old| old.iter().find(|(until, _)| *until > at));
        was.is_none_or(|(_, was)| was.is_some())
    }

    /// Objects that a read at each one's lag shows otherwise than they are.
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

/// How far a read lags behind for one object. Half of what a read shows is fresh, as most of it is in EC2.
fn drawn(chance: &mut Random, max: Duration) -> Duration {
    if chance.below(2) == 0 {
        return Duration::ZERO;
    }
    Duration::from_millis(chance.below(u64::try_from(max.as_millis()).unwrap_or(0) + 1))
}

/// Puts objects, or their absence, into a map; returns what was there.
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
    /// Reads are to lag up to this long by themselves.
    pub(super) fn lagging(config: &EngineConfig) -> Self {
        let instances_max_lag = config.account.oddities.instances_max_lag();
        Self { max_lag: config.consistency.max_lag.min(MAX_LAG), instances_max_lag, ..Self::default() }
    }

    fn lags(&self) -> bool {
        !self.max_lag.is_zero() || self.instances_max_lag.is_some()
    }
}

impl Sim {
    /// How long reads may lag by themselves from now on; what lags now may be older.
    pub(crate) fn set_max_lag(&mut self, now: SystemTime, max_lag: Duration) {
        self.past.max_lag = max_lag.min(MAX_LAG);
        self.lag_from(now);
    }

    /// How long reads may lag by themselves.
    pub(crate) fn max_lag(&self) -> Duration {
        self.past.max_lag
    }

    /// Begins to lag, when reads are to.
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
            // What there was all along has no past.
            self.past.volumes.old.clear();
            self.past.snapshots.old.clear();
            self.past.instances.old.clear();
        }
    }

    /// Notes what has changed since it was last called.
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

    /// Refuses a call that changes something of which EC2 does not know yet where it looks, once it is made to meet the
    /// lag ([`crate::config::Oddities::changes_meet_the_lag`]).
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

    /// A read, with the lag it is made to have or one that is drawn for each object.
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

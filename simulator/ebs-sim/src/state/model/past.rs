//! Old versions of objects, kept for as long as a read may lag.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime};

use crate::config::EngineConfig;

use super::instance::Instance;
use super::snapshot::Snapshot;
use super::volume::Volume;

/// Maximum lag of EC2's reads.
pub(in crate::state) const MAX_LAG: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::state) struct PastVersions {
    /// Whether old versions are kept. They may be needed even if reads do not lag by default, because a fault rule can
    /// make a single read lag.
    pub(in crate::state) kept: bool,
    pub(in crate::state) max_lag: Duration,
    /// The maximum lag of instances. It replaces the default.
    pub(in crate::state) instances_max_lag: Option<Duration>,
    /// The revision up to which changes have been recorded.
    pub(in crate::state) noted: u64,
    pub(in crate::state) volumes: Log<Volume>,
    pub(in crate::state) snapshots: Log<Snapshot>,
    pub(in crate::state) instances: Log<Instance>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::state) struct Log<T> {
    pub(in crate::state) last: BTreeMap<String, T>,
    /// Old versions, oldest first, each with the time until which it was current. `None` means that the object did not
    /// exist.
    pub(in crate::state) old: BTreeMap<String, VecDeque<(SystemTime, Option<T>)>>,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self { last: BTreeMap::new(), old: BTreeMap::new() }
    }
}

impl<T: Clone + PartialEq> Log<T> {
    /// Compares all objects with their last versions, and keeps the old versions of those that changed. Drops versions
    /// older than `kept_for`.
    pub(in crate::state) fn record<'a>(
        &mut self,
        now: SystemTime,
        kept_for: Duration,
        objects: impl Iterator<Item = (&'a String, &'a T)>,
    ) where
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

    /// Returns false if the object did not exist at that time and has been created since.
    pub(in crate::state) fn has_known(&self, id: &str, at: SystemTime) -> bool {
        let was = self.old.get(id).and_then(|old| old.iter().find(|(until, _)| *until > at));
        was.is_none_or(|(_, was)| was.is_some())
    }

    /// Returns the old versions that a read shows, with a separate lag for each object.
    pub(in crate::state) fn changed_within(
        &self,
        now: SystemTime,
        mut lag: impl FnMut() -> Duration,
    ) -> Vec<(String, Option<T>)> {
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

impl PastVersions {
    /// Creates an empty history, with the maximum lag from the configuration.
    pub(in crate::state) fn lagging(config: &EngineConfig) -> Self {
        let instances_max_lag = config.account.oddities.instances_max_lag();
        Self { max_lag: config.consistency.max_lag.min(MAX_LAG), instances_max_lag, ..Self::default() }
    }

    pub(in crate::state) fn set_max_lag(&mut self, max_lag: Duration) {
        self.max_lag = max_lag.min(MAX_LAG);
    }

    pub(in crate::state) fn can_lag(&self) -> bool {
        !self.max_lag.is_zero() || self.instances_max_lag.is_some()
    }
}

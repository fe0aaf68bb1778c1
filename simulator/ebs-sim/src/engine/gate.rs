//! The steps of a call before the state sees it: token buckets, fault rules, and the duration of the call itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::api::Call;
use crate::buckets::{Buckets, Level, Limits};
use crate::chance::Chance;
use crate::faults::{Arrival, BadRule, Effect, InstalledRule, Plan, Rule, RuleId, RuleSet};

use super::latency::Latency;
use super::{Engine, EngineConfig, Shared};

/// Purposes of the random choices.
const RULES: u64 = 1;
const LATENCY: u64 = 2;
const REQUEST_IDS: u64 = 3;

#[derive(Debug)]
pub(super) struct Gate {
    pub(super) buckets: Buckets,
    pub(super) rules: RuleSet,
    pub(super) latency: Latency,
    chance: Chance,
    request_ids: Chance,
}

#[derive(Debug)]
pub(super) struct Guarded(Mutex<Gate>);

impl Guarded {
    pub(super) fn new(config: &EngineConfig) -> Self {
        Self(Mutex::new(Gate {
            buckets: Buckets::new(config.limits()),
            rules: RuleSet::new(Chance::new(config.seed, RULES)),
            latency: Latency::of(config.timing),
            chance: Chance::new(config.seed, LATENCY),
            request_ids: Chance::new(config.seed, REQUEST_IDS),
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Gate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// Decides what happens to a call that arrives now, before the state sees it.
    pub(super) fn admit(&mut self, now: SystemTime, call: &Call) -> Plan {
        let share = self.rules.share(now, call.action());
        let spent = self.latency.draw(&mut self.chance, call);
        if let Err(fault) = self.buckets.draw(now, call, share) {
            return Plan { before: spent / 2, arrival: Arrival::Refused(fault), ..Plan::default() };
        }
        let mut plan = self.rules.decide(now, call);
        // The call is executed in the middle of its duration.
        plan.before += spent / 2;
        plan.after += spent - spent / 2;
        plan
    }
}

/// The fault rules of an engine. Clones share the rules.
#[derive(Debug, Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

impl Faults {
    /// Adds a rule. Its times count from now.
    pub fn add(&self, rule: Rule) -> Result<RuleId, BadRule> {
        let ids = self.add_all(vec![rule]).map_err(|(_, bad)| bad)?;
        Ok(ids.into_iter().next().unwrap_or_default())
    }

    /// Adds all rules or none.
    ///
    /// # Errors
    /// The index of the first invalid rule, and the problem.
    pub fn add_all(&self, rules: Vec<Rule>) -> Result<Vec<RuleId>, (usize, BadRule)> {
        if rules.iter().any(|rule| matches!(rule.effect, Effect::Stale { .. })) {
            self.shared.core.keep_past();
        }
        self.shared.gate.lock().rules.add(self.shared.clock.now(), rules)
    }

    /// Removes a rule. Returns false if no rule has that number.
    pub fn remove(&self, id: RuleId) -> bool {
        self.shared.gate.lock().rules.remove(id)
    }

    /// Removes the rules with that name and returns their number.
    pub fn remove_named(&self, name: &str) -> usize {
        self.shared.gate.lock().rules.remove_named(name)
    }

    pub fn clear(&self) {
        self.shared.gate.lock().rules.clear();
    }

    /// Returns active and used-up rules, oldest first.
    pub fn list(&self) -> Vec<InstalledRule> {
        self.shared.gate.lock().rules.list()
    }
}

impl Engine {
    pub(crate) fn request_id(&self) -> String {
        self.shared.gate.lock().request_ids.request_id()
    }

    pub fn faults(&self) -> Faults {
        Faults { shared: Arc::clone(&self.shared) }
    }

    /// Returns the rates of the token buckets.
    pub fn limits(&self) -> Limits {
        self.shared.gate.lock().buckets.limits().clone()
    }

    /// Replaces the rates. Each bucket keeps its tokens, up to the new capacity. Call [`Limits::check`] first.
    pub fn set_limits(&self, limits: Limits) {
        self.shared.gate.lock().buckets.set_limits(limits);
    }

    /// Returns the levels of the buckets that have been used.
    pub fn bucket_levels(&self) -> Vec<Level> {
        let now = self.now();
        let mut gate = self.shared.gate.lock();
        let Gate { buckets, rules, .. } = &mut *gate;
        buckets.levels(now, |action| rules.share(now, action))
    }
}

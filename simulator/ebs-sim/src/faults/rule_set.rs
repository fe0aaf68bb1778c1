//! The rules and their decisions.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::api::{Call, Fault};
use crate::buckets;
use crate::chance::Chance;

use super::plan::{Arrival, Attachment, Corruption, Departure, Device, Plan};
use super::{BadRule, Effect, Rule};

/// A rule's number, which is never reused.
pub type RuleId = u64;

/// A rule that was added.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InstalledRule {
    pub id: RuleId,
    #[serde(flatten)]
    pub rule: Rule,
    /// Number of calls that matched the rule.
    pub seen: u64,
    /// Number of calls that the rule affected.
    pub hit: u64,
    #[serde(skip)]
    since: SystemTime,
}

/// All rules, oldest first.
#[derive(Debug)]
pub(crate) struct RuleSet {
    rules: Vec<InstalledRule>,
    next: RuleId,
    chance: Chance,
}

impl RuleSet {
    pub(crate) fn new(chance: Chance) -> Self {
        Self { rules: Vec::new(), next: 1, chance }
    }

    /// Adds all rules or none.
    pub(crate) fn add(&mut self, now: SystemTime, rules: Vec<Rule>) -> Result<Vec<RuleId>, (usize, BadRule)> {
        for (at, rule) in rules.iter().enumerate() {
            rule.check().map_err(|bad| (at, bad))?;
        }
        let first = self.next;
        for rule in rules {
            self.rules.push(InstalledRule { id: self.next, rule, seen: 0, hit: 0, since: now });
            self.next += 1;
        }
        Ok((first..self.next).collect())
    }

    /// Removes a rule. Returns false if no rule has that number.
    pub(crate) fn remove(&mut self, id: RuleId) -> bool {
        let before = self.rules.len();
        self.rules.retain(|installed| installed.id != id);
        self.rules.len() != before
    }

    pub(crate) fn remove_named(&mut self, name: &str) -> usize {
        let before = self.rules.len();
        self.rules.retain(|installed| installed.rule.name.as_deref() != Some(name));
        before - self.rules.len()
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(crate) fn list(&self) -> Vec<InstalledRule> {
        self.rules.clone()
    }

    /// Returns the fraction of an action's bucket that other clients leave unused, 0 to 1.
    pub(crate) fn share(&self, now: SystemTime, action: &str) -> f64 {
        let eaten = self.rules.iter().filter_map(|installed| match installed.rule.effect {
            Effect::Eat { fraction } if installed.in_force(now) && installed.rule.fits_action(action) => Some(fraction),
            _ => None,
        });
        eaten.fold(1.0, |left, fraction| left * (1.0 - fraction))
    }

    pub(crate) fn decide(&mut self, now: SystemTime, call: &Call) -> Plan {
        let mut plan = Plan::default();
        for installed in &mut self.rules {
            if installed.hits(now, call, &mut self.chance) {
                apply(&mut plan, &installed.rule.effect, &mut self.chance);
            }
        }
        plan
    }
}

impl InstalledRule {
    fn in_force(&self, now: SystemTime) -> bool {
        self.rule.in_force(now.duration_since(self.since).unwrap_or_default())
    }

    fn hits(&mut self, now: SystemTime, call: &Call, chance: &mut Chance) -> bool {
        let rule = &self.rule;
        if matches!(rule.effect, Effect::Eat { .. })
            || !rule.fits_action(call.action())
            || !self.in_force(now)
            || rule.resource.as_deref().is_some_and(|pattern| !call.names(pattern))
        {
            return false;
        }
        self.seen += 1;
        let due = rule.nth.is_none_or(|nth| nth == self.seen) && rule.times.is_none_or(|times| self.hit < times);
        let hit = due && chance.happens(rule.chance);
        self.hit += u64::from(hit);
        hit
    }
}

/// Adds an effect to the plan. Delays add up. Of the rules that end the call, the first one decides how.
fn apply(plan: &mut Plan, effect: &Effect, chance: &mut Chance) {
    plan.kinds.push(effect.kind());
    let millis = Duration::from_millis;
    match effect {
        Effect::LoseRequest { after_ms } => arrive(plan, Arrival::Lost(millis(*after_ms))),
        Effect::LoseReply { after_ms } => depart(plan, Departure::Lost(millis(*after_ms))),
        Effect::DelayRequest { ms, spread_ms } => {
            plan.before += chance.between(millis(*ms), millis(ms.saturating_add(*spread_ms)));
        }
        Effect::DelayReply { ms, spread_ms } => {
            plan.after += chance.between(millis(*ms), millis(ms.saturating_add(*spread_ms)));
        }
        Effect::Throttle => arrive(plan, Arrival::Refused(buckets::exceeded())),
        Effect::Error { code, message, status, after_doing } => {
            let fault = Fault::with_status(*status, code, message);
            if *after_doing {
                depart(plan, Departure::Replaced(fault));
            } else {
                arrive(plan, Arrival::Refused(fault));
            }
        }
        Effect::Garbage => depart(plan, Departure::Corrupted(Corruption::Garbage)),
        Effect::Truncate => depart(plan, Departure::Corrupted(Corruption::Truncated)),
        Effect::Oversize { bytes } => depart(plan, Departure::Corrupted(Corruption::Oversized(*bytes))),
        Effect::Stale { lag_ms } => plan.injection.lag = Some(millis(*lag_ms)),
        Effect::StuckAttaching => plan.injection.attachment = Some(Attachment::StuckAttaching),
        Effect::StuckDetaching => plan.injection.attachment = Some(Attachment::StuckDetaching),
        Effect::Busy => plan.injection.attachment = Some(Attachment::Busy),
        Effect::DeviceLate { ms } => plan.injection.device = Some(Device::Late(millis(*ms))),
        Effect::DeviceOtherName => plan.injection.device = Some(Device::OtherName),
        Effect::DeviceVanish { after_ms } => plan.injection.device = Some(Device::Vanish(millis(*after_ms))),
        Effect::DeviceIoError { after_ms } => plan.injection.device = Some(Device::IoError(millis(*after_ms))),
        Effect::Eat { .. } => {}
    }
}

fn arrive(plan: &mut Plan, arrival: Arrival) {
    if plan.arrival == Arrival::Done {
        plan.arrival = arrival;
    }
}

fn depart(plan: &mut Plan, departure: Departure) {
    if plan.departure == Departure::Delivered {
        plan.departure = departure;
    }
}

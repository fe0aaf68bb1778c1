//! A rule: which calls, how often, when, and what happens to them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::pattern;

use super::Effect;

/// The longest that EC2 is known to lag behind itself.
const MAX_LAG_MS: u64 = 15_000;
/// The largest reply that a rule may ask for.
const MAX_REPLY: u64 = 1 << 30;

/// One rule. A call is hit when it fits `actions`, `resource` and the time, and is the `nth` or has the luck.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// For people, and to remove it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names of actions, or beginnings followed by `*`; none: every action that the effect can happen to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// Only calls that name this: an id, a client token, a filter's or tag's value, or a beginning followed by `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Probability, 0 to 1.
    #[serde(default = "certain", skip_serializing_if = "is_certain")]
    pub chance: f64,
    /// Only the nth call that fits, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// At most so many calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Not before this time after the rule was set, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ms: Option<u64>,
    /// Not from this time after the rule was set on, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    pub effect: Effect,
}

fn certain() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn is_certain(chance: &f64) -> bool {
    *chance >= 1.0
}

/// A rule that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadRule {
    field: &'static str,
    why: String,
}

impl BadRule {
    fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into() }
    }
}

impl Rule {
    /// Every call that the effect can happen to, from now on.
    pub fn new(effect: Effect) -> Self {
        Self {
            name: None,
            actions: Vec::new(),
            resource: None,
            chance: 1.0,
            nth: None,
            times: None,
            from_ms: None,
            until_ms: None,
            effect,
        }
    }

    /// Only calls of this action; may be repeated.
    #[must_use]
    pub fn on(mut self, action: impl Into<String>) -> Self {
        self.actions.push(action.into());
        self
    }

    /// Only calls that name this.
    #[must_use]
    pub fn naming(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// With this probability only.
    #[must_use]
    pub fn chance(mut self, chance: f64) -> Self {
        self.chance = chance;
        self
    }

    /// At most so often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Only the nth call that fits.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(nth);
        self
    }

    /// Only so long after it was set.
    #[must_use]
    pub fn during(mut self, from: Duration, until: Duration) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.from_ms = Some(millis(from));
        self.until_ms = Some(millis(until));
        self
    }

    /// Refuses what can never happen or never be meant.
    ///
    /// # Errors
    /// [`BadRule`] names the field and what is wrong with it.
    pub fn check(&self) -> Result<(), BadRule> {
        self.check_when()?;
        self.check_actions()?;
        self.check_effect()
    }

    fn check_when(&self) -> Result<(), BadRule> {
        if !(0.0..=1.0).contains(&self.chance) {
            return Err(BadRule::new("chance", format!("{} is not between 0 and 1", self.chance)));
        }
        for (field, count) in [("nth", self.nth), ("times", self.times)] {
            if count == Some(0) {
                return Err(BadRule::new(field, "0 would hit nothing: leave it away, or count from 1"));
            }
        }
        if let (from, Some(until)) = (self.from_ms.unwrap_or(0), self.until_ms)
            && until <= from
        {
            return Err(BadRule::new("until_ms", format!("{until} is not after from_ms, {from}")));
        }
        if self.resource.as_deref() == Some("") {
            return Err(BadRule::new("resource", "\"\" names nothing: leave it away for all"));
        }
        Ok(())
    }

    fn check_actions(&self) -> Result<(), BadRule> {
        for action in &self.actions {
            if !pattern::means_any(action, |_| true) {
                return Err(BadRule::new("actions", format!("{action:?} names no action of the simulated EC2")));
            }
            if let Some(only) = self.effect.only_on()
                && !pattern::means_any(action, |known| pattern::matches(only, known))
            {
                let kind = self.effect.kind();
                return Err(BadRule::new("actions", format!("{kind} happens to {only} only, not to {action}")));
            }
        }
        Ok(())
    }

    fn check_effect(&self) -> Result<(), BadRule> {
        match &self.effect {
            Effect::Error { code, .. } if code.is_empty() => Err(BadRule::new("effect.code", "is empty")),
            Effect::Error { status, .. } if !(400..600).contains(status) => {
                Err(BadRule::new("effect.status", format!("{status} is no error: use 400 to 599")))
            }
            Effect::Stale { lag_ms } if *lag_ms > MAX_LAG_MS => {
                Err(BadRule::new("effect.lag_ms", format!("{lag_ms} is more than {MAX_LAG_MS}, EC2's longest lag")))
            }
            Effect::Oversize { bytes } if *bytes > MAX_REPLY => {
                Err(BadRule::new("effect.bytes", format!("{bytes} is more than {MAX_REPLY}")))
            }
            Effect::Eat { fraction } if !(0.0..=1.0).contains(fraction) => {
                Err(BadRule::new("effect.fraction", format!("{fraction} is not between 0 and 1")))
            }
            Effect::Eat { .. } if self.resource.is_some() || self.nth.is_some() || self.times.is_some() => {
                Err(BadRule::new("effect", "eat works all the time: resource, nth and times mean nothing with it"))
            }
            Effect::Eat { .. } if self.chance < 1.0 => {
                Err(BadRule::new("chance", "eat works all the time: use its fraction"))
            }
            _ => Ok(()),
        }
    }

    /// True when calls of this action may be hit.
    pub(super) fn fits_action(&self, action: &str) -> bool {
        let meant = self.actions.is_empty() || self.actions.iter().any(|pattern| pattern::matches(pattern, action));
        meant && self.effect.only_on().is_none_or(|only| pattern::matches(only, action))
    }

    /// True when the rule is in force so long after it was set.
    pub(super) fn in_force(&self, age: Duration) -> bool {
        let reached = |ms: u64| age >= Duration::from_millis(ms);
        self.from_ms.is_none_or(reached) && !self.until_ms.is_some_and(reached)
    }
}

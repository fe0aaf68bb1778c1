//! A fault rule: which calls it affects, how often, when, and with which effect.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::pattern;

use super::Effect;

const MAX_LAG_MS: u64 = 15_000;
const MAX_REPLY: u64 = 1 << 30;

/// A rule for calls that match `actions` and `resource`. `nth`, `times`, `chance`, `from_ms` and `until_ms` limit it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A description, by which the rule can also be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names of actions, or prefixes followed by `*`. If empty, the rule applies to every action that the effect can
    /// affect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// Affects only calls with this name: an id, client token, filter value or tag value, or a prefix followed by `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Probability with which a matching call is affected, 0 to 1.
    #[serde(default = "certain", skip_serializing_if = "is_certain")]
    pub chance: f64,
    /// Affects only the nth matching call, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// Maximum number of affected calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// When the rule becomes active, in milliseconds after it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ms: Option<u64>,
    /// When the rule becomes inactive, in milliseconds after it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    pub effect: Effect,
}

fn certain() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_certain(chance: &f64) -> bool {
    *chance >= 1.0
}

/// An invalid rule.
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
    /// Creates a rule that is active immediately and affects every call that the effect can affect.
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

    /// Restricts the rule to this action. Repeated calls add actions.
    #[must_use]
    pub fn on(mut self, action: impl Into<String>) -> Self {
        self.actions.push(action.into());
        self
    }

    /// Sets the probability.
    #[must_use]
    pub fn chance(mut self, chance: f64) -> Self {
        self.chance = chance;
        self
    }

    /// Limits the number of affected calls.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Restricts the rule to the nth matching call.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(nth);
        self
    }

    /// Restricts the rule to a period, given as times after the rule was added.
    #[must_use]
    pub fn during(mut self, from: Duration, until: Duration) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.from_ms = Some(millis(from));
        self.until_ms = Some(millis(until));
        self
    }

    /// Rejects rules that can never apply or contradict themselves.
    pub fn check(&self) -> Result<(), BadRule> {
        self.check_when()?;
        self.check_actions()?;
        self.check_effect()
    }

    fn check_when(&self) -> Result<(), BadRule> {
        if !(0.0..=1.0).contains(&self.chance) {
            return Err(BadRule::new("chance", format!("{} is outside 0 to 1", self.chance)));
        }
        for (field, count) in [("nth", self.nth), ("times", self.times)] {
            if count == Some(0) {
                return Err(BadRule::new(field, "0 matches no call; omit it, or count from 1"));
            }
        }
        if let (from, Some(until)) = (self.from_ms.unwrap_or(0), self.until_ms)
            && until <= from
        {
            return Err(BadRule::new("until_ms", format!("{until} is not later than from_ms {from}")));
        }
        if self.resource.as_deref() == Some("") {
            return Err(BadRule::new("resource", "\"\" matches nothing; omit it to match all"));
        }
        Ok(())
    }

    fn check_actions(&self) -> Result<(), BadRule> {
        for action in &self.actions {
            if !pattern::means_any(action, |_| true) {
                return Err(BadRule::new("actions", format!("the simulated EC2 has no action {action:?}")));
            }
            if let Some(only) = self.effect.only_on()
                && !pattern::means_any(action, |known| pattern::matches(only, known))
            {
                let kind = self.effect.kind();
                return Err(BadRule::new("actions", format!("{kind} applies only to {only}, not to {action}")));
            }
        }
        Ok(())
    }

    fn check_effect(&self) -> Result<(), BadRule> {
        match &self.effect {
            Effect::Error { code, .. } if code.is_empty() => Err(BadRule::new("effect.code", "must not be empty")),
            Effect::Error { status, .. } if !(400..600).contains(status) => {
                Err(BadRule::new("effect.status", format!("{status} is not an error status; use 400 to 599")))
            }
            Effect::Stale { lag_ms } if *lag_ms > MAX_LAG_MS => {
                Err(BadRule::new("effect.lag_ms", format!("{lag_ms} exceeds {MAX_LAG_MS}, EC2's longest lag")))
            }
            Effect::Oversize { bytes } if *bytes > MAX_REPLY => {
                Err(BadRule::new("effect.bytes", format!("{bytes} exceeds {MAX_REPLY}")))
            }
            Effect::Eat { fraction } if !(0.0..=1.0).contains(fraction) => {
                Err(BadRule::new("effect.fraction", format!("{fraction} is outside 0 to 1")))
            }
            Effect::Eat { .. } if self.resource.is_some() || self.nth.is_some() || self.times.is_some() => {
                Err(BadRule::new("effect", "the effect eat is always active; omit resource, nth and times"))
            }
            Effect::Eat { .. } if self.chance < 1.0 => {
                Err(BadRule::new("chance", "eat is always active; use its fraction instead"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the rule can affect calls of this action.
    pub(super) fn fits_action(&self, action: &str) -> bool {
        let meant = self.actions.is_empty() || self.actions.iter().any(|pattern| pattern::matches(pattern, action));
        meant && self.effect.only_on().is_none_or(|only| pattern::matches(only, action))
    }

    /// Returns whether the rule is active when this much time has passed since it was added.
    pub(super) fn in_force(&self, age: Duration) -> bool {
        let reached = |ms: u64| age >= Duration::from_millis(ms);
        self.from_ms.is_none_or(reached) && !self.until_ms.is_some_and(reached)
    }
}

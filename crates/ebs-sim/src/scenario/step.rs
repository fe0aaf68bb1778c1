//! One step of a scenario.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::buckets::Limits;
use crate::config::TimingOverride;
use crate::engine::Engine;
use crate::faults::{self, Rule};

use super::{Lag, Stuck};

/// An event and its time. Exactly one event is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Milliseconds after the start.
    pub at_ms: u64,
    /// Add a fault rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// Remove the fault rules with this name; `*` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<String>,
    /// Replace times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingOverride>,
    /// Replace the token buckets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Set the maximum lag of reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consistency: Option<Lag>,
    /// Release an attachment that a rule has stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<Stuck>,
    /// Advance the clock by this number of milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advance_ms: Option<u64>,
}

/// Parses a list of steps and checks each.
pub(super) fn list(json: &[u8]) -> Result<Vec<Step>, String> {
    let values: Vec<Value> = serde_json::from_slice(json).map_err(|e| format!("not a list of steps: {e}"))?;
    values
        .into_iter()
        .enumerate()
        .map(|(at, value)| one(value).map_err(|why| format!("step {}: {why}", at + 1)))
        .collect()
}

fn one(value: Value) -> Result<Step, String> {
    if let Some(rule) = value.get("rule") {
        // An invalid rule names its own field better than the step could.
        faults::check_rule(rule.clone()).map_err(|why| format!("rule: {why}"))?;
    }
    let step: Step = serde_json::from_value(value).map_err(|error| error.to_string())?;
    step.check()?;
    Ok(step)
}

impl Step {
    fn check(&self) -> Result<(), String> {
        let given = [
            self.rule.is_some(),
            self.remove.is_some(),
            self.timing.is_some(),
            self.limits.is_some(),
            self.consistency.is_some(),
            self.release.is_some(),
            self.advance_ms.is_some(),
        ];
        if given.into_iter().filter(|given| *given).count() != 1 {
            return Err(
                "requires exactly one of rule, remove, timing, limits, consistency, release, advance_ms".to_owned()
            );
        }
        if let Some(lag) = self.consistency {
            lag.check().map_err(|why| format!("consistency: {why}"))?;
        }
        if let Some(timing) = &self.timing {
            timing.check().map_err(|why| format!("timing: {why}"))?;
        }
        self.limits.as_ref().map_or(Ok(()), |limits| limits.check().map_err(|bad| format!("limits: {bad}")))
    }

    pub(super) fn take(self, engine: &Engine) {
        tracing::info!(step = serde_json::to_string(&self).unwrap_or_default(), "running scenario step");
        if let Some(rule) = self.rule
            && let Err(bad) = engine.faults().add(rule)
        {
            tracing::error!(%bad, "invalid rule in the scenario");
        }
        match self.remove.as_deref() {
            Some("*") => engine.faults().clear(),
            Some(name) => drop(engine.faults().remove_named(name)),
            None => {}
        }
        if let Some(timing) = self.timing {
            engine.replace_timing(timing);
        }
        if let Some(limits) = self.limits {
            engine.set_limits(limits);
        }
        if let Some(lag) = self.consistency {
            engine.set_consistency(lag.consistency());
        }
        if let Some(Err(fault)) = self.release.map(|stuck| stuck.release(engine)) {
            tracing::warn!(%fault, "failed to release an attachment");
        }
        if let Some(ms) = self.advance_ms {
            engine.advance(Duration::from_millis(ms));
        }
    }
}

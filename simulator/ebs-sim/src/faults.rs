//! Fault injection: rules for which calls are affected, how often, and by which effect.
//!
//! The code is pure: callers pass the time, and all random choices come from one seed, so that a run is repeatable.

mod effect;
mod parse;
mod plan;
mod rule;
mod rule_set;
#[cfg(test)]
mod tests;

pub use effect::Effect;
pub use parse::rules_from_json;
pub use rule::{BadRule, Rule};

pub use rule_set::{InstalledRule, RuleId};

pub(crate) use plan::{Arrival, Attachment, Corruption, Departure, Device, FaultInjection, Plan};
pub(crate) use rule_set::RuleSet;

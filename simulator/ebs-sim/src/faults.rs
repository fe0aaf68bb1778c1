//! Fault injection: each rule determines which calls it affects, how often, and with which effect.
//!
//! The code reads no clock: callers pass the time. All random choices come from one seed, so that a run is repeatable.

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

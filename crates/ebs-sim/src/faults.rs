//! What goes wrong on request: rules that say which calls are hit, how often, and by what.
//!
//! Pure: the time is given, and all choices come from one seed, so that a run repeats.

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

pub(crate) use parse::check_rule;
pub(crate) use plan::{Arrival, Attachment, Corruption, Departure, Device, FaultInjection, Plan};
pub(crate) use rule_set::RuleSet;

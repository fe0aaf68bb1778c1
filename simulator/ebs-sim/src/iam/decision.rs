//! Decides checks with policies.

use std::fmt;

use ebs_ec2::Tags;

use super::check::Check;
use super::condition::Met;
use super::document::{Policy, Statement};
use super::key::Key;

/// A failed check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// `ec2:CreateVolume`
    pub action: String,
    /// ARN of the resource, or `*` for actions without a resource.
    pub resource: String,
    /// Whether a statement denies the check. Otherwise no statement allows it.
    pub explicit: bool,
    /// The statement that denies the check, or each statement that nearly allows it, with its unmet condition.
    pub why: Vec<String>,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: ", self.action, self.resource)?;
        if self.why.is_empty() {
            return write!(f, "no statement matches this action and resource");
        }
        write!(f, "{}", self.why.join("; "))
    }
}

/// Decides whether the policies together allow the check: no statement denies it, and at least one allows it.
pub(super) fn decide<'a>(
    policies: impl Iterator<Item = &'a Policy> + Clone,
    check: &Check,
    caller: &Tags,
) -> Result<(), Denial> {
    let lookup = |key: &Key| check.variable(key, caller);
    let mut allowed = false;
    for (policy, statement) in all(policies.clone()) {
        if !statement.is_about(check, &lookup) {
            continue;
        }
        if !statement.allows && statement.conditions.iter().all(|c| c.met(check, &lookup) == Met::Yes) {
            let why = vec![format!("{} of {} denies it", statement.name, policy.name)];
            return Err(Denial { explicit: true, why, ..denial(check) });
        }
        // EC2 reports a missing resource as missing, not as forbidden, so its tags do not matter.
        allowed |= statement.allows && statement.conditions.iter().all(|c| c.met(check, &lookup) != Met::No);
    }
    if allowed {
        return Ok(());
    }
    let near = all(policies).filter(|(_, statement)| statement.allows && statement.is_about(check, &lookup));
    let why = near.map(|(policy, statement)| {
        let unmet = statement.conditions.iter().filter(|c| c.met(check, &lookup) == Met::No);
        let unmet: Vec<String> = unmet.map(|c| c.explain(check, &lookup)).collect();
        format!("{} of {} requires {}", statement.name, policy.name, unmet.join(" and "))
    });
    Err(Denial { why: why.collect(), ..denial(check) })
}

fn denial(check: &Check) -> Denial {
    Denial { action: check.action.to_owned(), resource: check.arn.clone(), explicit: false, why: Vec::new() }
}

fn all<'a>(policies: impl Iterator<Item = &'a Policy>) -> impl Iterator<Item = (&'a Policy, &'a Statement)> {
    policies.flat_map(|policy| policy.statements.iter().map(move |statement| (policy, statement)))
}

impl Statement {
    fn is_about(&self, check: &Check, lookup: &dyn Fn(&Key) -> Option<String>) -> bool {
        let named = self.actions.iter().any(|action| action.fits(check.action, true, lookup) == Some(true));
        named != self.but_actions
            && self.resources.iter().any(|resource| resource.covers(&check.arn, lookup)) != self.but_resources
    }
}

//! Identity and access management: which caller may call which action on which resource.
//!
//! A call becomes a list of checks ([`checks`]): an action, the ARN of one resource, and the values of conditions, as
//! in EC2. Policy documents ([`Policy`]) decide each check: an explicit deny wins, otherwise one statement must allow
//! it. All checks of a call must pass.
//!
//! Policies have two uses. Policies of a run are *enforced* (UnauthorizedOperation). The policies in `deploy/iam`,
//! which the project ships, are *audited*: each call records which of them would allow it. So a test suite can prove
//! that the driver needs no more permissions than these.

mod check;
mod condition;
mod decision;
mod document;
mod key;
mod pattern;
mod rights;
mod shipped;
#[cfg(test)]
mod tests;

pub(crate) use check::{AccountFacts, Facts};
pub use decision::Denial;
pub use document::{Policy, PolicyError};
pub(crate) use pattern::matches_wildcard;
pub use rights::{Caller, IamConfig, LeastRights, Unallowed};
pub(crate) use rights::{Judgement, Rights};
pub use shipped::{AllowedBy, Audit, Extra, Shipped};

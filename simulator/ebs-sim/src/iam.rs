//! Identity and access management: which caller may call which action on which resource.
//! A call becomes a list of [`checks`], all of which must pass. A check passes if no [`Policy`] denies it and at least
//! one allows it. The policies of a run are *enforced* (UnauthorizedOperation). The shipped policies in `deploy/iam`
//! are *audited*: each call records which of these policies would allow it.

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
pub(crate) use pattern::{has_wildcard, matches_wildcard};
pub use rights::{Caller, IamConfig, LeastRights, Unallowed};
pub(crate) use rights::{Judgement, Rights};
pub use shipped::{AllowedBy, Audit, Extra, Shipped};

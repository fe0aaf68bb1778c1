//! Identity and access management: who may call what on which resource.
//!
//! A call becomes a list of checks ([`checks`]): an action, the ARN of one resource and what conditions may ask about
//! it, as EC2 makes them. Policy documents ([`Policy`]) decide on each check: an explicit deny wins, else one statement
//! must allow it. All checks of a call must pass.
//!
//! Two uses: the policies that a run is given are *enforced* (UnauthorizedOperation), and the policies that the project
//! ships in `deploy/iam` are *audited*: each call is told which of them would allow it, so that a test suite can prove
//! that the driver needs no more rights than these give.

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

pub(crate) use check::{Facts, Known};
pub use decision::Denial;
pub use document::{Policy, PolicyError};
pub use rights::{Caller, IamConfig, LeastRights, Unallowed};
pub(crate) use rights::{Judgement, Rights};
pub use shipped::{AllowedBy, Audit, Extra, Shipped};

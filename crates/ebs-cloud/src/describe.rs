//! What EC2 shows of its objects, and when it is asked.
//!
//! - [`DescribeBatchers`]: one for each kind of object, which puts the questions of all subscribers into few calls.
//! - [`ResourceWaiter`] polls through those batchers until a condition holds.
//! - [`Lookups`] are single describes through those batchers.

mod batcher;
mod bisect;
mod lookups;
pub(crate) mod pages;
mod queries;
mod schedule;
mod transition_times;
mod waiter;

pub(crate) use batcher::DescribeBatchers;
pub(crate) use lookups::Lookups;
pub(crate) use transition_times::Transition;
pub(crate) use waiter::{FirstPoll, ResourceWaiter, Verdict};

//! What EC2 shows of its objects, and when it is asked.
//!
//! - [`DescribeBatchers`]: one for each kind of object, which puts the questions of all subscribers into few calls.
//! - [`ResourceWaiter`] polls through those batchers until a condition holds.
//! - [`Zones`] are the zones of the region, and [`listing`] gives pages of objects.
//! - [`Lookups`] are single describes through those batchers.

mod batcher;
mod bisect;
pub(crate) mod listing;
mod lookups;
pub(crate) mod pages;
mod queries;
mod schedule;
mod transition_times;
mod waiter;
mod zones;

pub(crate) use batcher::DescribeBatchers;
pub(crate) use lookups::Lookups;
pub(crate) use transition_times::Transition;
pub(crate) use waiter::{FirstPoll, ResourceWaiter, Verdict};
pub(crate) use zones::Zones;

//! What EC2 shows of its objects, as operations need it. When and how often EC2 is asked, `ebs-calls` decides.
//!
//! - [`ResourceWaiter`] polls until a condition holds.
//! - [`Lookups`] are single describes.
//! - [`Zones`] are the zones of the region, and [`listing`] gives pages of objects.

pub(crate) mod listing;
mod lookups;
mod waiter;
mod zones;

pub(crate) use lookups::Lookups;
pub(crate) use waiter::{FirstPoll, ResourceWaiter, Verdict};
pub(crate) use zones::Zones;

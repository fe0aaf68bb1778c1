//! Describes of EC2 objects for the operations. `ebs-calls` decides when and how often to call EC2.
//!
//! - [`ResourceWaiter`] polls until a condition holds.
//! - [`Lookups`] are single describes.
//! - [`Zones`] caches the zones of the region, and [`listing`] returns pages of objects.

pub(crate) mod listing;
mod lookups;
mod waiter;
mod zones;

pub(crate) use lookups::Lookups;
pub(crate) use waiter::{FirstPoll, ResourceWaiter, Verdict};
pub(crate) use zones::Zones;

//! Describes of EC2 objects for the operations. `traffic` decides when and how often to call EC2.
//!
//! - [`Describer`] describes an object once, or until a condition holds.
//! - [`Zones`] caches the zones of the region, and [`listing`] returns pages of objects.

mod describer;
pub(crate) mod listing;
mod zones;

pub(crate) use describer::{Describer, FirstPoll, Verdict};
pub(crate) use zones::Zones;

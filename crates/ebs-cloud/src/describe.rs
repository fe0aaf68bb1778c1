//! Describe calls to EC2 for the operations. `traffic` decides when and how often to call EC2.

mod describer;
pub(crate) mod listing;
mod zones;

pub(crate) use describer::{Describer, FirstPoll, Verdict};
pub(crate) use zones::Zones;

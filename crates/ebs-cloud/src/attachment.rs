//! Attachments of volumes to nodes.

mod attach;
mod begin;
mod cards;
mod detach;
mod device_name;
mod instances;
mod pairs;
mod pending;
mod proof;
mod refusal;
mod spare;
mod standing;

pub(crate) use cards::Cards;
pub(crate) use device_name::DeviceNames;
pub(crate) use instances::KnownInstances;
pub(crate) use pairs::PairMemory;
pub use pending::PendingDetach;
pub(crate) use pending::PendingDetaches;

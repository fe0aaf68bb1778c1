//! Attachments of volumes to nodes.

mod attach;
mod begin;
mod cards;
mod detach;
mod device_name;
mod instances;
mod node_attachment;
mod pairs;
mod pending;
mod proof;
mod refusal;
mod spare;

pub(crate) use cards::EbsCardCounts;
pub(crate) use device_name::DeviceNames;
pub(crate) use instances::InstanceCache;
pub(crate) use pairs::PairMemory;
pub use pending::PendingDetach;
pub(crate) use pending::PendingDetaches;

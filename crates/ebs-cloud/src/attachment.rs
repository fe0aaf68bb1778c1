//! Attachments of volumes to nodes.

mod attach;
mod attach_call;
mod detach;
mod detach_call;
mod device_name;
mod instance_cache;
mod node_attachment;
mod pairs;
mod proof;

pub use detach::PendingDetach;
pub(crate) use detach::PendingDetaches;
pub(crate) use device_name::DeviceNames;
pub(crate) use instance_cache::{EbsCardCounts, InstanceCache};
pub(crate) use pairs::PairMemory;

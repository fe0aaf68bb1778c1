//! Volumes: planning, creating, finding, listing and deleting them.

mod adopt;
mod by_name;
mod client_token;
mod create;
mod delete;
mod get;
mod initialization;
mod iops_limit;
mod listing;
mod memory;
mod plan;
mod refusal;
mod request;
mod zones;

pub(crate) use adopt::ownership;
pub(crate) use get::exists;
pub(crate) use initialization::Initialization;
pub(crate) use iops_limit::{IopsLimitProbe, IopsQuery, Site};
pub(crate) use memory::VolumeMemory;
#[cfg(test)]
pub(crate) use plan::tests::volume as a_volume;
pub(crate) use zones::Zones;

//! Volumes: planning, creating, finding and deleting them.

mod adopt;
mod by_name;
mod create;
mod delete;
mod get;
mod memory;
mod plan;
mod refusal;
mod request;

pub(crate) use adopt::ownership;
pub(crate) use get::exists;
pub(crate) use memory::VolumeMemory;
#[cfg(test)]
pub(crate) use plan::tests::volume as a_volume;

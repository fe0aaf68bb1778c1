//! Volumes: planning, creating, finding and deleting them.

mod adopt;
mod by_name;
mod create;
mod delete;
mod look;
mod memory;
mod order;
mod plan;
mod refusal;

pub(crate) use adopt::ownership;
pub(crate) use look::exists;
pub(crate) use memory::VolumeMemory;
#[cfg(test)]
pub(crate) use plan::tests::volume as a_volume;

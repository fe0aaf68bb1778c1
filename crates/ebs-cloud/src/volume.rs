//! Volumes: planning, creating, finding and deleting them.

mod adopt;
mod create;
mod delete;
mod look;
mod order;
mod plan;

pub(crate) use adopt::ownership;
pub(crate) use create::VolumeMemory;
pub(crate) use look::exists;
#[cfg(test)]
pub(crate) use plan::tests::volume as a_volume;

//! Volumes: planning, creating, finding, growing and deleting them.

mod adopt;
mod create;
mod delete;
mod expand;
mod look;
mod order;
mod plan;

pub(crate) use adopt::ownership;
pub(crate) use create::VolumeMemory;

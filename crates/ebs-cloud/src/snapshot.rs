//! Snapshots: taking, finding and deleting them, and what they have besides their data.

mod create;
mod delete;
mod features;
mod get;
mod memory;
mod provide;
mod service;
mod strength;

pub use service::SnapshotService;

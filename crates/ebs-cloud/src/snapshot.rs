//! Snapshots: creating, finding and deleting them, with their locks and fast restores.

mod create;
mod delete;
mod features;
mod get;
mod memory;
mod provide;
mod service;
mod strength;

pub use service::SnapshotService;

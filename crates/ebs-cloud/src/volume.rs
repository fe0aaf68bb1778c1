//! Volumes: creating, finding, modifying and deleting them.

mod adopt;
mod by_name;
mod client_token;
mod create;
mod delete;
mod get;
mod initialization;
mod iops_limit;
mod memory;
mod modification;
mod new_request;
mod plan;
mod refusal;
mod request;
mod service;

pub use service::VolumeService;

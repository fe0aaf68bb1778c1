//! The CSI services (identity, controller and node) and their socket.
//!
//! Each RPC parses its request once into a typed plan. A mutation runs as an operation that outlives its request
//! ([`operation`]). `ebs-cloud` decides which EC2 calls to make, and `ebs-mounter` handles disks.

pub mod capability;
pub mod capacity;
pub mod config;
pub mod context;
pub mod controller;
pub mod csi_node;
pub mod go_template;
pub mod identity;
#[cfg(test)]
#[path = "../tests/node_on_disk/log.rs"]
mod log;
#[cfg(target_os = "linux")]
pub mod node;
pub mod node_info;
pub mod not_ec2;
pub mod operation;
pub mod parameters;
pub mod redact;
pub mod request_log;
pub mod rpc;
pub mod server;
pub mod status;
pub mod tags;
pub mod timeouts;
pub mod topology;
pub mod volume_handle;

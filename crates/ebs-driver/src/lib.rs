//! The CSI services: identity, controller and node, and the socket they are served on.
//!
//! A request is parsed once into a typed plan; from there on no string maps. A mutation runs as an operation that
//! outlives its request ([`operation`]); what it ends with becomes a gRPC status in one place ([`status`]).
//! EC2 policy is `ebs-cloud`'s, disks are `ebs-mounter`'s: nothing here knows an SDK or a device.

pub mod capability;
pub mod capacity;
pub mod config;
pub mod contract;
pub mod controller;
pub mod identity;
pub mod idle_node;
#[cfg(target_os = "linux")]
pub mod node;
pub mod node_info;
pub mod operation;
pub mod parameters;
pub mod redact;
pub mod request_log;
pub mod rpc;
pub mod server;
pub mod status;
pub mod tags;
pub mod topology;
pub mod volume_handle;

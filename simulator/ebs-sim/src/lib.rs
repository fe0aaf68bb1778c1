//! `ebs-sim`: a simulated EC2 for Amazon EBS, as strict as the real one, with loop devices for disks.
//!
//! [`server`] opens the HTTP listeners, `wire` decodes and encodes, `engine` executes the calls on the state machines
//! in `state`, and `plane` moves real data on real block devices. [`port::SimEc2`] is the EC2 port without HTTP.

pub mod api;
pub mod buckets;
mod chance;
pub mod cli;
mod config;
mod control;
pub mod engine;
pub mod env_file;
pub mod faults;
mod http;
pub mod iam;
mod imds;
mod ledger;
mod plane;
pub mod port;
pub mod server;
mod state;
pub mod view;
mod wire;

pub use config::{AccessKey, Devices, ZoneConfig};
pub use http::{Broken, Ec2Service, OpenError};
pub use ledger::{LedgerEntry, LedgerPage};
pub use server::{Server, ServerConfig, ServerError};

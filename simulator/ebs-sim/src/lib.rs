//! `ebs-sim`: a simulated EC2 for Amazon EBS, as strict as the real one, with loop devices for disks.
//!
//! From the outside in: [`server`] opens three HTTP listeners, for the EC2 Query API, the instance metadata service and
//! the control API. `wire` decodes bytes to typed calls and encodes replies to XML. `engine` executes the calls on the
//! state machines in `state`, and `plane` moves real data on real block devices. Tests without HTTP use
//! [`port::SimEc2`], which implements the EC2 port over the same engine.
//!
//! It is a test double and a development tool. The driver never links it and reaches it only over HTTP.

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

//! The model test: runs the controller service with random requests, faults, restarts and lost leases, on virtual time.
//!
//! A seed determines a run of the real controller service on a simulated EC2. A small orchestrator calls the service as
//! Kubernetes' sidecars do, and worse. The orchestrator knows only CSI's responses ([`beliefs`]), which the model
//! compares with the state of EC2 ([`truth`]):
//!
//! - no leaked or duplicate volume or snapshot, no "detached" while attached, no attach after a successful detach
//! - no duplicate device name, no change of a foreign volume, no lost tag, no size below the reported one
//! - no class that is reported but not applied, no final code without a reason
//!
//! Then the faults end: every request must end, and after everything is deleted, nothing may be left.
//!
//! A port between driver and EC2 injects the faults ([`link`], [`fault_plan`]). A late effect and a stale read together
//! stay within the 15 s after which the driver believes a describe. [`events`] describes what a lost lease permits.
//! Planted bugs prove that the model finds bugs ([`Planted`]).

mod administrator;
mod answers;
mod beliefs;
mod calls;
mod classes;
mod content;
mod driver;
mod driver_process;
mod events;
mod falsified;
mod fault_plan;
mod link;
mod modified;
mod network;
mod planted;
mod retries;
mod rng;
mod rpc;
mod run;
mod settle;
mod setup;
mod sidecar;
mod steps;
mod target;
mod truth;
mod world;

pub use planted::Planted;
pub use run::{Failure, caught, run, run_on_port, run_seeds};
pub use world::{Made, Options};

//! The model test: the controller service under random orders, faults, restarts and lost leases, on virtual time.
//!
//! A run is made of one number. It puts the real controller service, with the real layer of operations and the real EC2
//! policy, before a simulated EC2, and lets a small orchestrator call it as Kubernetes' sidecars would, and worse. The
//! orchestrator knows only what CSI's answers say ([`beliefs`]); after every answer and every pause that is compared
//! with what EC2 really has ([`truth`]): no leaked and no second volume or snapshot, never "detached" while attached, no
//! attach after a successful detach, no device name twice, no foreign volume changed, no tag lost, no size below
//! what was answered, no class applied but not there, no final code without a reason. Then the faults end, and every wish must be met or refused for
//! good, and a deletion of everything must leave nothing.
//!
//! Between driver and EC2 lies a port that loses requests and replies, delays them beyond every deadline, lets them
//! take effect after their caller has given up, throttles, and forgets the caller ([`link`], [`fault_plan`]). Together, a
//! late effect and a stale read stay within the 15 s after which the driver believes a describe. What a lost lease allows stands in [`events`].
//!
//! That the model finds bugs is shown by planting some ([`Planted`]).

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
mod run;
mod settle;
mod setup;
mod sidecar;
mod steps;
mod truth;
mod world;

pub use planted::Planted;
pub use run::{Failure, Made, Options, caught, run, run_on_port};

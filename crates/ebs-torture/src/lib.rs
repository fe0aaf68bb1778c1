//! The node torture: the real node service in a process of its own, on real loop devices, killed at random moments.
//!
//! A cycle is made of one number. It takes one disk through random steps of an orchestrator and of the world around it:
//! stage, publish as a file system and as a raw device, write, unpublish, unstage, detach, attach; arguments that mkfs
//! refuses; data that somebody writes to the disk after a refusal; and `kill -9` of the service in the middle, with and
//! without the mkfs that it runs. What was acknowledged is remembered ([`truth`]) and looked for: it is there for ever,
//! nothing that held data is formatted, an unstaged disk is free. Then the faults end: the volume must be staged again
//! without a hand, or be refused for the data that lies on it, and nothing may be left behind ([`cycle`]).
//!
//! Time is real here, so a seed decides the steps and the moments of the faults, not who wins a race.
//! That the torture finds bugs is shown by planting some ([`Planted`]).

mod calls;
mod cycle;
mod faults;
mod planted;
mod service;
mod steps;
mod truth;
mod world;

pub use cycle::{Failure, Options, run};
pub use planted::Planted;
pub use service::{ServiceOptions, serve};

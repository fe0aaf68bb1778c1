//! The node torture: the real node service in separate processes, on real loop devices, killed at random moments.
//!
//! A seed determines a cycle: rounds of random steps ([`step`]) of an orchestrator and its environment on one to three
//! disks of two nodes, all disks concurrently. Many rounds have a fault ([`faults`]): `kill -9` of a service or of its
//! tools, or a power cut of a node or of one disk ([`cut_disk`]). Pods, backups, agents and the disk itself leave
//! volumes in states that the driver must handle ([`trouble`]).
//!
//! The torture remembers what was acknowledged ([`truth`]) and checks that it is never lost, that no disk with data is
//! formatted, and that an unstaged disk is free and has all its data. Then the faults end. The driver must stage every
//! volume again without help, or reject it for a reason from a closed list ([`Exception`]), and nothing may be left
//! behind ([`settle`]). Planted bugs prove that the torture finds bugs ([`Planted`]).
//!
//! [`vm`] tests the same service on real NVMe disks in a virtual machine.

mod calls;
pub mod cut_disk;
mod cycle;
mod faults;
mod frozen;
mod mount_copy;
mod node;
mod planted;
mod service;
mod settle;
mod shared;
mod step;
mod trouble;
mod truth;
pub mod vm;
mod volume;
mod writes;

pub use cycle::{Failure, Options, Outcome, run_seeds};
pub use planted::Planted;
pub use service::{ServiceOptions, serve};
pub use shared::{Counts, Exception, STAGED};

//! The node torture: the real node service in separate processes, on real loop devices, killed at random moments.
//!
//! A seed determines a cycle. It takes one to three disks of two nodes through rounds of random steps of an
//! orchestrator and its environment, all disks concurrently. The steps are stage, publish as a file system and as a raw
//! device, write, unpublish, unstage, enlarge and expand, detach, and attach to the same or the other node. Others are
//! arguments that mkfs rejects, and data that another program writes to the disk after a rejection.
//!
//! Many rounds have a fault ([`faults`]): `kill -9` of a service, with and without its tools, or of mkfs, e2fsck or
//! resize2fs alone; a power cut of a node or of one disk. After a power cut, a disk has its last flushed state plus a
//! part of the later writes ([`cut_disk`]). Pods, backups, agents and the disk itself leave volumes in
//! states that the driver must handle ([`trouble`]).
//!
//! The torture remembers what was acknowledged ([`truth`]) and checks it: it exists forever, nothing with data is
//! formatted, and an unstaged disk is free and has all data that was written to it. Then the faults end. The driver
//! alone must stage every volume again, or reject it for a reason of a closed list ([`Exception`]), and nothing may be
//! left behind ([`settle`]).
//!
//! Time is real here, so a seed determines the steps and the moments of the faults, but not the result of races.
//! Planted bugs prove that the torture finds bugs ([`Planted`]).
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

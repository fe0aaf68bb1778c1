//! The node torture: the real node service in processes of its own, on real loop devices, killed at random moments.
//!
//! A cycle is made of one number. It takes one to three disks, of two nodes, through rounds of random steps of an orchestrator
//! and of the world around it, all disks at once: stage, publish as a file system and as a raw device, write, unpublish,
//! unstage, enlarge and expand, detach, attach here or at the other node; arguments that mkfs refuses; data that somebody
//! writes to the disk after a refusal. In many rounds something strikes ([`faults`]): `kill -9` of a service, with and
//! without the tools that it runs, of mkfs, e2fsck or resize2fs alone; a power cut of a node, or of one disk, after which a
//! disk is as of its last flush plus a part of what was written since (`ebs_testkit::cut_disk`). Pods, backups, agents and the
//! disk itself leave volumes in states that the driver must cope with ([`trouble`]).
//!
//! The torture remembers what was acknowledged ([`truth`]) and looks for it: it is there for ever, nothing that held data is
//! formatted, an unstaged disk is free and has all that was written to it. Then the faults end: the driver alone must stage every
//! volume again, or refuse it for one of the reasons of a closed list ([`Exception`]), and nothing may be left behind ([`settle`]).
//!
//! Time is real here, so a seed decides the steps and the moments of the faults, not who wins a race.
//! That the torture finds bugs is shown by planting some ([`Planted`]).

mod calls;
mod cycle;
mod faults;
mod node;
mod planted;
mod service;
mod settle;
mod shared;
mod step;
mod trouble;
mod truth;
mod volume;
mod writes;

pub use cycle::{Failure, Options, Outcome, run};
pub use planted::Planted;
pub use service::{ServiceOptions, serve};
pub use shared::{Counts, Exception, STAGED};

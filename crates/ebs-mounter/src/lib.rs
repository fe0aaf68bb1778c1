//! Disks and mounts of one node: find the right device, look at what it holds, format what is proven blank, mount,
//! grow, unmount.
//!
//! [`Mounter`] is the way in. Nothing here knows CSI or EC2. A device is identified by what it says of itself, never
//! by its name alone; one open descriptor is held from that check to the mount ([`Device`]). `Blank` is a positive
//! answer: an I/O error is never one. Children start in `tool` only, system calls are made in `os` only.
//!
//! Cancellation: every future here may be dropped, but what runs then goes on: a system call that has started cannot
//! be called back, and a child that changes a disk is never killed. Whoever needs the outcome does not drop the future.

mod mounter;

pub use mounter::{Mounter, MounterConfig, MounterError};

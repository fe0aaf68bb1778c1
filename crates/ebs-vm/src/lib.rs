//! The node service on real NVMe disks: a virtual machine whose disks come, go, grow, hang and fail, and a program inside it
//! that drives the service and asks for all this. `make vm-test` runs it.
//!
//! Two programs: `ebs-vm`, outside, packs a root file system ([`pack`], [`archive`]), boots it ([`machine`]) and does to its disks what
//! it is asked for ([`disk`], [`identity`]); `ebs-vm-guest`, inside, is the tests, a boot for each
//! [`suite`]. They talk over a serial line ([`line`]).

pub mod archive;
pub mod disk;
pub mod identity;
pub mod line;
pub mod machine;
pub mod pack;
pub mod suite;

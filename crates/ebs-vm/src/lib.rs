//! The node service on real NVMe disks: a virtual machine with disks that appear, vanish, grow, hang and fail, and a
//! program inside that tests the service and requests these events. `make vm-test` runs it.
//!
//! `ebs-vm`, outside, packs a root file system ([`pack`], [`archive`]), boots it ([`machine`]), and changes its disks
//! on request ([`disk`], [`identity`]). `ebs-vm-guest`, inside, contains the tests, with one boot per [`suite`]. They
//! communicate over a serial line ([`line`]).

pub mod archive;
pub mod disk;
pub mod identity;
pub mod line;
pub mod machine;
pub mod pack;
pub mod suite;

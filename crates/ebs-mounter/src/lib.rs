//! Disks and mounts of one node: find the right device, examine its contents, format it if it is proven blank, mount,
//! grow and unmount it.
//!
//! [`Mounter`] is the entry point. This crate knows neither CSI nor EC2. A device is identified by the identity that it
//! reports, never by its name alone, and one open descriptor is held from that check to the mount ([`Device`]). `Blank`
//! is a proof: an I/O error never counts as blank. Only `tool` starts child processes, and only `os` makes system
//! calls.
//!
//! Only Linux has all of it. Other systems have only the types of requests: file systems, options, partitions.
//!
//! Cancellation: every future here may be dropped, but its work continues. A system call that has started cannot be
//! cancelled, and a child that changes a disk is never killed. A caller that needs the outcome must not drop the
//! future.

#[cfg(target_os = "linux")]
mod bounded;
#[cfg(target_os = "linux")]
mod check;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
mod counted_errors;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod device_number;
#[cfg(target_os = "linux")]
mod disk_holders;
#[cfg(target_os = "linux")]
mod disk_parts;
#[cfg(target_os = "linux")]
mod disk_use;
#[cfg(target_os = "linux")]
mod flush;
#[cfg(target_os = "linux")]
mod format;
mod format_options;
#[cfg(target_os = "linux")]
mod format_record;
#[cfg(target_os = "linux")]
mod freeze;
mod fs_type;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod fuzz;
#[cfg(target_os = "linux")]
mod grow;
#[cfg(target_os = "linux")]
mod mount;
#[cfg(target_os = "linux")]
mod mounter;
#[cfg(target_os = "linux")]
mod mountinfo;
#[cfg(target_os = "linux")]
mod nvme_statistics;
mod options;
#[cfg(target_os = "linux")]
mod os;
mod partition;
#[cfg(target_os = "linux")]
mod path;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod register;
#[cfg(target_os = "linux")]
mod state_directory;
#[cfg(target_os = "linux")]
mod stats;
#[cfg(target_os = "linux")]
mod tool;
#[cfg(target_os = "linux")]
mod tool_memory;
#[cfg(target_os = "linux")]
mod unmount;
#[cfg(target_os = "linux")]
mod unmounted;
#[cfg(target_os = "linux")]
mod xfs_features;

#[cfg(target_os = "linux")]
pub use bounded::Stuck;
#[cfg(target_os = "linux")]
pub use check::CheckError;
#[cfg(target_os = "linux")]
pub use config::MounterConfig;
#[cfg(target_os = "linux")]
pub use counted_errors::{CountedErrors, RecordedErrors};
#[cfg(target_os = "linux")]
pub use device::{Device, DeviceError, DeviceQuery, Identity, IdentityError, NoSysfs};
#[cfg(target_os = "linux")]
pub use device_number::DeviceNumber;
#[cfg(target_os = "linux")]
pub use disk_use::{DiskUses, Hold, RawBind};
#[cfg(target_os = "linux")]
pub use format::{FormatError, FormatSpec};
pub use format_options::{FormatOptions, SizeWord, SizeWordError};
#[cfg(target_os = "linux")]
pub use format_record::{FormatPermit, FormatRecord, RecordError};
pub use fs_type::{FsType, UnknownFsType};
#[cfg(target_os = "linux")]
pub use grow::{GrowError, Growth, Headroom};
#[cfg(target_os = "linux")]
pub use mount::{MountError, Shown, Suspicion};
#[cfg(target_os = "linux")]
pub use mounter::{Mounter, MounterError};
#[cfg(target_os = "linux")]
pub use mountinfo::{MountEntry, MountTable, MountTableError};
#[cfg(target_os = "linux")]
pub use nvme_statistics::{
    Exceeded, LatencyBin, NvmeStatistics, STATISTICS_PAGE_BYTES, StatisticsError, StatisticsPageError, Transfers,
    VolumeStatistics,
};
pub use options::{Attribute, MountOptions, OptionsError};
pub use partition::{Partition, PartitionError};
#[cfg(target_os = "linux")]
pub use path::{Found, NodePath, PathError};
#[cfg(target_os = "linux")]
pub use probe::{BlankProof, Contents, ExtSuperblock, GrowthLimit, PROOF_BOUND, ProbeError, Superblock, XfsSuperblock};
#[cfg(target_os = "linux")]
pub use register::{Attacher, RegisteredVolume};
#[cfg(target_os = "linux")]
pub use stats::{Counts, Implausible, Usage};
#[cfg(target_os = "linux")]
pub use tool::ToolError;
#[cfg(target_os = "linux")]
pub use unmount::{UnmountError, Unmounted};

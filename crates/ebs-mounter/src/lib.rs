//! Disks and mounts of one node: find the right device, look at what it holds, format what is proven blank, mount,
//! grow, unmount.
//!
//! [`Mounter`] is the way in. Nothing here knows CSI or EC2. A device is identified by what it says of itself, never
//! by its name alone; one open descriptor is held from that check to the mount ([`Device`]). `Blank` is a positive
//! answer: an I/O error is never one. Children start in `tool` only, system calls are made in `os` only.
//!
//! Only Linux has all of it; elsewhere there are the words that requests use: file systems, options, partitions.
//!
//! Cancellation: every future here may be dropped, but what runs then goes on: a system call that has started cannot
//! be called back, and a child that changes a disk is never killed. Whoever needs the outcome does not drop the future.

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

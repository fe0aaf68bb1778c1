//! Disks and mounts of one node: find the right device, look at what it holds, format what is proven blank, mount,
//! grow, unmount.
//!
//! [`Mounter`] is the way in. Nothing here knows CSI or EC2. A device is identified by what it says of itself, never
//! by its name alone; one open descriptor is held from that check to the mount ([`Device`]). `Blank` is a positive
//! answer: an I/O error is never one. Children start in `tool` only, system calls are made in `os` only.
//!
//! Cancellation: every future here may be dropped, but what runs then goes on: a system call that has started cannot
//! be called back, and a child that changes a disk is never killed. Whoever needs the outcome does not drop the future.

mod bounded;
mod check;
mod counted_errors;
mod device;
mod device_number;
mod disk_use;
mod format;
mod format_record;
mod fs_type;
#[cfg(test)]
mod fuzz;
mod grow;
mod mount;
mod mounter;
mod mountinfo;
mod nvme_statistics;
mod options;
mod os;
mod partition;
mod path;
mod probe;
mod register;
mod stats;
mod tool;
mod unmount;
mod xfs_features;

pub use bounded::Stuck;
pub use check::CheckError;
pub use counted_errors::CountedErrors;
pub use device::{Device, DeviceError, DeviceQuery, Identity, IdentityError, NoSysfs};
pub use device_number::DeviceNumber;
pub use disk_use::{DiskUses, Hold, RawBind};
pub use format::{FormatError, FormatOptions, FormatSpec, SizeWord, SizeWordError};
pub use format_record::{FormatPermit, FormatRecord, RecordError};
pub use fs_type::{FsType, UnknownFsType};
pub use grow::{GrowError, Growth};
pub use mount::{MountError, Shown};
pub use mounter::{Mounter, MounterConfig, MounterError};
pub use mountinfo::{MountEntry, MountTable, MountTableError};
pub use nvme_statistics::{
    Exceeded, LatencyBin, NvmeStatistics, STATISTICS_PAGE_BYTES, StatisticsError, StatisticsPageError, Transfers,
    VolumeStatistics,
};
pub use options::{Attribute, MountOptions, OptionsError};
pub use partition::{Partition, PartitionError};
pub use path::{Found, NodePath, PathError};
pub use probe::{BlankProof, Contents, ExtSuperblock, PROOF_BOUND, ProbeError, Superblock, XfsSuperblock};
pub use register::{Attacher, RegisteredVolume};
pub use stats::{Counts, Implausible, Usage};
pub use tool::ToolError;
pub use unmount::{UnmountError, Unmounted};

//! Disks and mounts of one node: find the right device, examine its contents, format it if it is proven blank, mount,
//! grow and unmount it. [`Mounter`] has all operations, which exist only on Linux.
//!
//! The crate recognises a device by the identity that the device reports, never by its name alone, and holds one
//! descriptor open from that check to the mount ([`Device`]). [`BlankProof`] is a proof: an I/O error never counts as
//! blank. Only `tools` starts child processes, and only `os` makes system calls.
//!
//! Cancellation: every future here may be dropped, but its work continues: a system call that has started cannot be
//! cancelled, and a child that changes a disk is never killed. A caller that needs the outcome must not drop the
//! future.

mod format_options;
mod fs_type;
mod options;
mod partition;

pub use format_options::{FormatOptions, SizeWord, SizeWordError};
pub use fs_type::{FsType, UnknownFsType};
pub use options::{Attribute, MountOptions, OptionsError};
pub use partition::{Partition, PartitionError};

// rustfmt formats the modules inside `cfg_if!`, but not those inside `cfg_select!` yet.
cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        mod bounded;
        mod check;
        mod config;
        mod device;
        mod disk;
        mod disk_parts;
        mod failed_flushes;
        mod format;
        #[cfg(test)]
        mod fuzz;
        mod grow;
        mod mount;
        mod mounter;
        mod mountinfo;
        mod nvme_statistics;
        mod os;
        mod path;
        mod probe;
        mod recorded_errors;
        mod register;
        mod state_directory;
        mod tools;
        mod usage;

        pub use bounded::Stuck;
        pub use check::CheckError;
        pub use config::MounterConfig;
        pub use device::{Device, DeviceError, DeviceQuery, Identity, IdentityError, NoSysfs};
        pub use os::DeviceNumber;
        pub use disk::users::{DiskMounts, Hold, RawBind};
        pub use format::record::{FormatPermit, FormatRecord, RecordError};
        pub use format::{FormatError, FormatSpec};
        pub use grow::{GrowError, Growth, Headroom};
        pub use mount::unmount::{UnmountError, Unmounted};
        pub use mount::{MountError, MountSource, Suspicion};
        pub use mounter::Mounter;
        pub use mountinfo::{MountEntry, MountTable, MountTableError};
        pub use nvme_statistics::{
            Exceeded, LatencyBin, NvmeStatistics, STATISTICS_PAGE_BYTES, StatisticsError, StatisticsPageError, Transfers,
            VolumeStatistics,
        };
        pub use path::{PathKind, NodePath, PathError};
        pub use probe::{
            BlankProof, Contents, ExtSuperblock, GrowthLimit, PROOF_BOUND, ProbeError, Superblock, XfsSuperblock,
        };
        pub use recorded_errors::{CountedErrors, RecordedErrors};
        pub use register::{Attacher, RegisteredVolume};
        pub use state_directory::MounterError;
        pub use tools::ToolError;
        pub use usage::{Counts, Implausible, Usage};
    }
}

//! The steps (primitive operations) of the machine, with one method for each. They separate the decisions, which run on
//! every system, from Windows.
//!
//! The traits **block**. COM objects belong to the thread that created them, and every Win32 call of this crate is
//! synchronous, so each implementation of an asynchronous trait would need a thread pool. Instead, there is one pool in
//! front of [`crate::Storage`]: the proxy and the node plugin call its operations from a bounded set of threads, never
//! from a worker of the runtime. If the deadline of a caller passes, the caller stops waiting, and the step continues
//! to its end.
//!
//! An implementation decides nothing: it does the step once and returns Windows' result. [`crate::service`] decides
//! which steps are allowed, in which order they run, and what an error means. There are two implementations: Windows
//! (`real`, with [`crate::wmi`]) and `fake::FakeHost`.

mod disk;
mod error;
mod file;
mod network;
mod system;

pub use disk::{
    Disk, DiskHost, DiskRow, OfflineReason, Partition, PartitionKind, PartitionStyle, VolumeHost, VolumeRow,
};
pub use error::{Answer, HostError, code, result};
pub use file::{EntryKind, FsEntry, NativeHost, Space, SpaceHost};
pub use network::{
    Authentication, IscsiHost, Mapping, MappingStatus, NewMapping, ObjectPath, Portal, Session, SmbHost, Target,
    TargetLogin,
};
pub use system::{ServiceRow, SystemHost};

pub trait Host: DiskHost + VolumeHost + SmbHost + IscsiHost + SystemHost {}

impl<H: DiskHost + VolumeHost + SmbHost + IscsiHost + SystemHost> Host for H {}

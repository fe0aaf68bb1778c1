//! What the machine can do, a step a method: the seam between decisions, which run everywhere, and Windows.
//!
//! The traits **block**. COM objects belong to the thread that made them and every Win32 call of this crate is synchronous, so an
//! asynchronous trait would only hide a pool of threads in each implementation. The pool stands once instead, in front of
//! [`crate::Storage`]: the proxy and the node plugin call its operations from a bounded set of threads of their own, never from a
//! worker of the runtime. A caller whose deadline passes stops waiting; the step goes on to its end.
//!
//! An implementation decides nothing: it does what the method says, once, and answers with what Windows said. What may be done,
//! in which order and what a refusal means stands in [`crate::service`]. There are two: Windows (`real`, over [`crate::wmi`]) and
//! `fake::FakeHost`.

mod disk;
mod error;
mod file;
mod network;
mod system;

pub use disk::{
    Disk, DiskHost, DiskRow, OfflineReason, Partition, PartitionKind, PartitionStyle, VolumeHost, VolumeRow,
};
pub use error::{Answer, HostError, code, result};
pub use file::{EntryKind, FsEntry, FsHost, Space, SpaceHost};
pub use network::{
    Authentication, IscsiHost, Mapping, MappingStatus, NewMapping, ObjectPath, Portal, Session, SmbHost, Target,
    TargetLogin,
};
pub use system::{ServiceRow, SystemHost};

/// A whole machine.
pub trait Host: DiskHost + VolumeHost + FsHost + SpaceHost + SmbHost + IscsiHost + SystemHost {}

impl<H: DiskHost + VolumeHost + FsHost + SpaceHost + SmbHost + IscsiHost + SystemHost> Host for H {}

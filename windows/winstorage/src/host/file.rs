//! Files and directories as open handles.
//!
//! An [`FsEntry`] is the object and not its name. So the object that was checked is the one that is used, even if
//! another process renames or replaces entries meanwhile. Only the methods that are documented as following links
//! follow them.

use std::time::Duration;

use super::HostError;
use crate::types::{DiskNumber, VolumeGuid, WinPath};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    /// A symbolic link (`IO_REPARSE_TAG_SYMLINK`).
    SymbolicLink {
        /// The target as it was written.
        target: String,
        is_directory: bool,
    },
    /// A mount point whose name is a path (`\??\C:\…`).
    Junction {
        /// The target without the prefix.
        target: String,
    },
    MountPoint(VolumeGuid),
    /// Any other reparse point, by its tag.
    OtherReparse(u32),
}

/// Space of a volume in bytes, as `GetDiskFreeSpaceExW` returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Free for the caller, within its quota.
    pub available: u64,
    pub total: u64,
    /// Free without regard to quotas.
    pub free: u64,
}

/// The machine outside of WMI: files, devices, drive letters, time.
pub trait NativeHost: SpaceHost {
    /// Opens a path that the administrator has named, and **follows every link in it**. Errors: the path does not exist
    /// ([`HostError::is_missing`]), or cannot be opened.
    fn open(&self, path: &WinPath) -> Result<Box<dyn FsEntry>, HostError>;
    fn open_volume(&self, volume: &VolumeGuid) -> Result<Box<dyn FsEntry>, HostError>;
    /// Returns whether `path` exists, whatever its kind, also for UNC paths (`GetFileAttributesW`).
    fn path_valid(&self, path: &str) -> Result<bool, HostError>;
    /// Returns the disk number that the device itself reports (`IOCTL_STORAGE_GET_DEVICE_NUMBER`).
    fn device_number(&self, device: &str) -> Result<DiskNumber, HostError>;
    /// Returns the bytes of the device's `STORAGE_DEVICE_ID_DESCRIPTOR`, for [`crate::page83::identifier`].
    fn device_ids(&self, device: &str) -> Result<Vec<u8>, HostError>;
    /// Returns `length` bytes of the disk from `offset`, fewer at its end. Both are multiples of 4,096.
    fn read_disk(&self, disk: DiskNumber, offset: u64, length: usize) -> Result<Vec<u8>, HostError>;
    fn volume_of_drive(&self, letter: char) -> Result<VolumeGuid, HostError>;
    fn system_drive(&self) -> Result<char, HostError>;
    /// Returns the time since a fixed instant. It is monotonic.
    fn elapsed(&self) -> Duration;
    fn pause(&self, time: Duration);
}

/// The free space of a volume. It is a trait of its own because a process in a container can do nothing else with the
/// machine.
pub trait SpaceHost: Send + Sync {
    /// Returns the space of the volume with `path`, following mounts.
    fn space(&self, path: &WinPath) -> Result<Space, HostError>;
}

pub trait FsEntry: Send {
    fn kind(&self) -> Result<EntryKind, HostError>;
    /// Opens the entry `name` of this directory, without following it if it is a link. Returns `None` if it does not
    /// exist.
    fn child(&self, name: &str) -> Result<Option<Box<dyn FsEntry>>, HostError>;
    fn children(&self) -> Result<Vec<String>, HostError>;
    /// Creates a directory in this one. Errors: the name already exists ([`super::code::ALREADY_EXISTS`]), or the
    /// directory cannot be written.
    fn create_directory(&self, name: &str) -> Result<Box<dyn FsEntry>, HostError>;
    /// Creates a symbolic link in this directory, flagged as a link to a directory if `is_directory` is set.
    fn create_link(&self, name: &str, target: &str, is_directory: bool) -> Result<(), HostError>;
    /// Removes this entry without following it. A directory must be empty. Errors: [`super::code::DIR_NOT_EMPTY`], or
    /// the entry cannot be removed.
    fn remove(self: Box<Self>) -> Result<(), HostError>;
    /// Returns whether the target of this link or mount point exists. **Follows it**, and returns nothing else about
    /// the target.
    fn leads_somewhere(&self) -> Result<bool, HostError>;
    /// Makes this empty directory a mount point of `volume`. Errors: [`super::code::DIR_NOT_EMPTY`], also if it already
    /// is a mount point.
    fn mount(&self, volume: &VolumeGuid) -> Result<(), HostError>;
    fn unmount(&self) -> Result<(), HostError>;
}

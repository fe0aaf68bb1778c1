//! Files and directories as open handles.
//!
//! An [`FsEntry`] is the object itself and not its name. So the object that was checked is the object that is used,
//! even if another process renames or replaces entries in the meantime. A method follows links only if its
//! documentation states so.

use std::time::Duration;

use super::HostError;
use crate::types::{DiskNumber, VolumeGuid, WinPath};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    /// A symbolic link (`IO_REPARSE_TAG_SYMLINK`).
    SymbolicLink {
        /// The target, exactly as it was stored.
        target: String,
        is_directory: bool,
    },
    /// A mount point whose target is a path (`\??\C:\…`), not a volume.
    Junction {
        /// The target without the prefix `\??\`.
        target: String,
    },
    MountPoint(VolumeGuid),
    /// Any other reparse point, with its tag.
    OtherReparse(u32),
}

/// Space of a volume in bytes, as `GetDiskFreeSpaceExW` returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that the caller may still use within its quota.
    pub available: u64,
    pub total: u64,
    /// Free bytes, without regard to quotas.
    pub free: u64,
}

/// What a machine offers in addition to WMI: files, devices, drive letters, time.
pub trait NativeHost: SpaceHost {
    /// Opens a path that the administrator has configured, and **follows every link in it**. Errors: the path does not
    /// exist ([`HostError::is_missing`]), or cannot be opened.
    fn open(&self, path: &WinPath) -> Result<Box<dyn FsEntry>, HostError>;
    fn open_volume(&self, volume: &VolumeGuid) -> Result<Box<dyn FsEntry>, HostError>;
    /// Returns whether `path` exists, whatever its kind. Accepts UNC paths (`GetFileAttributesW`).
    fn path_valid(&self, path: &str) -> Result<bool, HostError>;
    /// Returns the disk number that the device itself reports (`IOCTL_STORAGE_GET_DEVICE_NUMBER`).
    fn device_number(&self, device: &str) -> Result<DiskNumber, HostError>;
    /// Returns the bytes of the device's `STORAGE_DEVICE_ID_DESCRIPTOR`, for [`crate::page83::identifier`].
    fn device_ids(&self, device: &str) -> Result<Vec<u8>, HostError>;
    /// Returns `length` bytes of the disk from `offset`, or fewer at the end of the disk. Both numbers must be
    /// multiples of 4,096.
    fn read_disk(&self, disk: DiskNumber, offset: u64, length: usize) -> Result<Vec<u8>, HostError>;
    fn volume_of_drive(&self, letter: char) -> Result<VolumeGuid, HostError>;
    fn system_drive(&self) -> Result<char, HostError>;
    /// Returns the time since a fixed instant. The time is monotonic.
    fn elapsed(&self) -> Duration;
    fn pause(&self, time: Duration);
}

/// The space of a volume. This is a separate trait, because a process in a container can use no other part of the
/// machine.
pub trait SpaceHost: Send + Sync {
    /// Returns the space of the volume that contains `path`. Follows mount points.
    fn space(&self, path: &WinPath) -> Result<Space, HostError>;
}

pub trait FsEntry: Send {
    fn kind(&self) -> Result<EntryKind, HostError>;
    /// Opens the entry `name` of this directory. Does not follow it if it is a link. Returns `None` if it does not
    /// exist.
    fn child(&self, name: &str) -> Result<Option<Box<dyn FsEntry>>, HostError>;
    fn children(&self) -> Result<Vec<String>, HostError>;
    /// Creates a directory in this directory. Errors: the name already exists ([`super::code::ALREADY_EXISTS`]), or
    /// this directory is not writable.
    fn create_directory(&self, name: &str) -> Result<Box<dyn FsEntry>, HostError>;
    /// Creates a symbolic link in this directory. `is_directory` makes it a link to a directory.
    fn create_link(&self, name: &str, target: &str, is_directory: bool) -> Result<(), HostError>;
    /// Removes this entry. Does not follow a link. A directory must be empty. Errors: [`super::code::DIR_NOT_EMPTY`],
    /// or the entry cannot be removed.
    fn remove(self: Box<Self>) -> Result<(), HostError>;
    /// Returns whether the target of this link or mount point exists. **Follows the link**, but returns nothing else
    /// about the target.
    fn leads_somewhere(&self) -> Result<bool, HostError>;
    /// Makes this empty directory a mount point of `volume`. Errors: [`super::code::DIR_NOT_EMPTY`], even if the
    /// directory is already a mount point.
    fn mount(&self, volume: &VolumeGuid) -> Result<(), HostError>;
    fn unmount(&self) -> Result<(), HostError>;
}

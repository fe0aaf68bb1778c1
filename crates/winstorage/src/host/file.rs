//! Files and directories, held open while something is done with them.
//!
//! An [`FsEntry`] is the thing itself, not its name: what is checked is what is used, whoever renames or replaces entries
//! meanwhile. None of its methods follows a link unless it says so.

use super::HostError;
use crate::types::{VolumeGuid, WinPath};

/// What an entry of a directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link (`IO_REPARSE_TAG_SYMLINK`).
    SymbolicLink {
        /// Where it leads, as it was written.
        target: String,
        /// Made for a directory.
        is_directory: bool,
    },
    /// A mount point whose name is a path (`\??\C:\…`).
    Junction {
        /// Where it leads, without the prefix.
        target: String,
    },
    /// A mount point of a volume (`\??\Volume{…}\`).
    MountPoint(VolumeGuid),
    /// Any other reparse point, by its tag.
    OtherReparse(u32),
}

/// Bytes of a volume, as `GetDiskFreeSpaceExW` tells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Free for the caller, quotas counted.
    pub available: u64,
    /// All.
    pub total: u64,
    /// Free for anybody.
    pub free: u64,
}

/// The file system as a whole.
pub trait FsHost: Send + Sync {
    /// Opens a path that the administrator has named, **following every link in it**.
    ///
    /// # Errors
    /// It is not there ([`HostError::is_missing`]), or cannot be opened.
    fn open(&self, path: &WinPath) -> Result<Box<dyn FsEntry>, HostError>;
    /// Opens the root directory of a volume.
    ///
    /// # Errors
    /// The volume is not there, or has no file system.
    fn open_volume(&self, volume: &VolumeGuid) -> Result<Box<dyn FsEntry>, HostError>;
    /// Whether `path`, of any kind, UNC too, leads to something (`GetFileAttributesW`).
    ///
    /// # Errors
    /// Something else than "not found" or "invalid name" was answered, as for a share with stale credentials.
    fn path_valid(&self, path: &str) -> Result<bool, HostError>;
}

/// What is left on a volume. It stands alone because a process in a container has nothing else of the machine of its own.
pub trait SpaceHost: Send + Sync {
    /// Space of the volume that `path` lies on, mounts followed.
    ///
    /// # Errors
    /// The path is not there, or its volume cannot be asked.
    fn space(&self, path: &WinPath) -> Result<Space, HostError>;
}

/// Something in the file system, open.
pub trait FsEntry: Send {
    /// What it is.
    ///
    /// # Errors
    /// It cannot be asked, or its reparse data cannot be understood.
    fn kind(&self) -> Result<EntryKind, HostError>;
    /// The entry `name` of this directory, itself, also where it is a link; `None` where there is none.
    ///
    /// # Errors
    /// This is no directory, or the entry cannot be opened.
    fn child(&self, name: &str) -> Result<Option<Box<dyn FsEntry>>, HostError>;
    /// The names in this directory.
    ///
    /// # Errors
    /// This is no directory, or cannot be read.
    fn children(&self) -> Result<Vec<String>, HostError>;
    /// Makes a directory in this one.
    ///
    /// # Errors
    /// Something of that name is there already ([`super::code::ALREADY_EXISTS`]), or the directory cannot be written.
    fn create_directory(&self, name: &str) -> Result<Box<dyn FsEntry>, HostError>;
    /// Makes a symbolic link in this directory, flagged as one to a directory where `is_directory`.
    ///
    /// # Errors
    /// As for [`Self::create_directory`].
    fn create_link(&self, name: &str, target: &str, is_directory: bool) -> Result<(), HostError>;
    /// Removes this entry: a link as a link, a directory only when it is empty.
    ///
    /// # Errors
    /// [`super::code::DIR_NOT_EMPTY`], or it cannot be removed.
    fn remove(self: Box<Self>) -> Result<(), HostError>;
    /// Whether what this link or mount point leads to is there: **follows it**, and tells no more.
    ///
    /// # Errors
    /// Something else than "not found" was answered.
    fn leads_somewhere(&self) -> Result<bool, HostError>;
    /// Makes this empty directory a mount point of `volume`.
    ///
    /// # Errors
    /// [`super::code::DIR_NOT_EMPTY`] also where it is a mount point already.
    fn mount(&self, volume: &VolumeGuid) -> Result<(), HostError>;
    /// Makes this mount point an empty directory.
    ///
    /// # Errors
    /// It is no mount point.
    fn unmount(&self) -> Result<(), HostError>;
}

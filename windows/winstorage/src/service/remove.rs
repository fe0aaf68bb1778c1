//! Removes paths. Removes a link, junction or mount point itself, and leaves its target unchanged.

use tracing::debug;

use super::walk::{MountPoints, Place, link_on_the_way, missing};
use crate::host::{EntryKind, FsEntry, HostError, code};
use crate::types::{Component, WinPath};
use crate::{Storage, StorageError, WayError};

/// Maximum depth of directories. No path of a client can be so deep, but a volume could contain deeper directories.
const DEEPEST: usize = 512;
/// How many times to empty a directory that other processes fill at the same time.
const ROUNDS: u32 = 3;

impl Storage {
    /// Removes a file, an empty directory, or a link itself. With `force`, removes a directory with its contents, and
    /// succeeds if the path does not exist.
    pub fn rmdir(&self, path: &str, force: bool) -> Result<(), StorageError> {
        let allowed = self.paths.check(path)?;
        let entry = match self.walk(&allowed, MountPoints::Refused)? {
            Place::Root(_) => {
                return Err(WayError::WorkingDirectory { operation: "Rmdir", path: allowed.path.to_string() }.into());
            }
            place => place.entry(),
        };
        match (entry, force) {
            (None, true) => Ok(()),
            (None, false) => Err(missing(&allowed.path)),
            (Some(entry), true) => remove_tree(entry, &allowed.path, DEEPEST),
            (Some(entry), false) => {
                forget_mount(entry.as_ref(), &entry.kind()?, &allowed.path);
                entry.remove().map_err(|error| not_empty(error, &allowed.path))
            }
        }
    }

    pub fn rmdir_contents(&self, path: &str) -> Result<(), StorageError> {
        let allowed = self.paths.check(path)?;
        let entry = match self.walk(&allowed, MountPoints::Refused)? {
            Place::Root(_) => {
                let operation = "RmdirContents";
                return Err(WayError::WorkingDirectory { operation, path: allowed.path.to_string() }.into());
            }
            place => place.entry().ok_or_else(|| missing(&allowed.path))?,
        };
        match entry.kind()? {
            EntryKind::Directory => empty(entry.as_ref(), &allowed.path, DEEPEST),
            EntryKind::File => Err(WayError::NotADirectory { path: allowed.path.to_string() }.into()),
            kind => {
                let name = allowed.below.last().cloned().unwrap_or_else(|| Component::new(""));
                Err(link_on_the_way(&allowed.path, &name, &kind).into())
            }
        }
    }
}

fn remove_tree(entry: Box<dyn FsEntry>, path: &WinPath, depth: usize) -> Result<(), StorageError> {
    let kind = entry.kind()?;
    if kind == EntryKind::Directory {
        empty(entry.as_ref(), path, depth)?;
    }
    forget_mount(entry.as_ref(), &kind, path);
    match entry.remove() {
        Err(error) if error.is_missing() => Ok(()),
        removed => removed.map_err(|error| not_empty(error, path)),
    }
}

/// Removes a mount point from Windows' list, which would otherwise keep the path of the removed directory. No decision
/// depends on that list, so an error is only logged.
fn forget_mount(entry: &dyn FsEntry, kind: &EntryKind, path: &WinPath) {
    if !matches!(kind, EntryKind::MountPoint(_)) {
        return;
    }
    if let Err(error) = entry.unmount() {
        debug!(%path, %error, "failed to remove the mount point from Windows' list of mount points");
    }
}

fn empty(directory: &dyn FsEntry, path: &WinPath, depth: usize) -> Result<(), StorageError> {
    let Some(below) = depth.checked_sub(1) else {
        return Err(WayError::TooDeep { path: path.to_string(), limit: DEEPEST }.into());
    };
    for _ in 0..ROUNDS {
        let names = directory.children()?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            if let Some(child) = directory.child(&name)? {
                remove_tree(child, &path.join(&Component::new(&name)), below)?;
            }
        }
    }
    Ok(())
}

fn not_empty(error: HostError, path: &WinPath) -> StorageError {
    if error.is_win32(code::DIR_NOT_EMPTY) {
        WayError::NotEmpty { path: path.to_string() }.into()
    } else {
        error.into()
    }
}

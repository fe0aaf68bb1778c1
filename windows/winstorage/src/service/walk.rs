//! Walks from a working directory down to the last component of a path. It opens each component in its parent without
//! following links, so no process can insert a link between the check and the use.

use crate::host::{EntryKind, FsEntry, HostError};
use crate::path::Allowed;
use crate::types::{Component, WinPath};
use crate::{Storage, StorageError, WayError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MountPoints {
    Refused,
    Crossed,
}

pub(super) enum Place {
    Root(Box<dyn FsEntry>),
    /// At `name` in `parent`. `entry` is absent if the name does not exist.
    In {
        parent: Box<dyn FsEntry>,
        name: String,
        entry: Option<Box<dyn FsEntry>>,
    },
    /// A parent of the last component is missing, or is a file.
    Nowhere,
}

impl Place {
    pub(super) fn entry(self) -> Option<Box<dyn FsEntry>> {
        match self {
            Self::Root(entry) => Some(entry),
            Self::In { entry, .. } => entry,
            Self::Nowhere => None,
        }
    }
}

impl Storage {
    /// Walks to the end of `allowed`. Fails if a component above the last one is a link.
    pub(super) fn walk(&self, allowed: &Allowed, crossing: MountPoints) -> Result<Place, StorageError> {
        let mut at = match self.host.native().open(&allowed.root) {
            Err(error) if error.is_missing() => return Ok(Place::Nowhere),
            opened => opened?,
        };
        let Some((last, above)) = allowed.below.split_last() else { return Ok(Place::Root(at)) };
        for name in above {
            let Some(child) = at.child(name.as_str())? else { return Ok(Place::Nowhere) };
            at = match child.kind()? {
                EntryKind::Directory => child,
                EntryKind::File => return Ok(Place::Nowhere),
                EntryKind::MountPoint(volume) if crossing == MountPoints::Crossed => {
                    self.host.native().open_volume(&volume)?
                }
                kind => return Err(link_on_the_way(&allowed.path, name, &kind).into()),
            };
        }
        let entry = at.child(last.as_str())?;
        Ok(Place::In { parent: at, name: last.as_str().to_owned(), entry })
    }

    /// Opens the directory `allowed`. Creates it and its missing parents if necessary.
    pub(super) fn make_directories(&self, allowed: &Allowed) -> Result<(), StorageError> {
        let mut at = self.open_or_make(&allowed.root)?;
        let mut left = allowed.below.iter().peekable();
        while let Some(name) = left.next() {
            at = self.enter_or_make(at.as_ref(), name, &allowed.path, left.peek().is_none())?;
        }
        Ok(())
    }

    fn enter_or_make(
        &self,
        directory: &dyn FsEntry,
        name: &Component,
        path: &WinPath,
        is_last: bool,
    ) -> Result<Box<dyn FsEntry>, StorageError> {
        let child = match directory.child(name.as_str())? {
            Some(child) => child,
            None => match directory.create_directory(name.as_str()) {
                // Another process has created an entry in the meantime. It may be of any kind.
                Err(error) if is_taken(&error) => directory.child(name.as_str())?.ok_or(error)?,
                made => return Ok(made?),
            },
        };
        match child.kind()? {
            EntryKind::Directory => Ok(child),
            EntryKind::File => Err(WayError::NotADirectory { path: path.to_string() }.into()),
            // If the last component is a link or mount point, it counts as a directory.
            _ if is_last && child.leads_somewhere()? => Ok(child),
            kind => Err(link_on_the_way(path, name, &kind).into()),
        }
    }

    /// Opens a directory that the administrator controls, and creates it if it is missing. Follows links.
    fn open_or_make(&self, path: &WinPath) -> Result<Box<dyn FsEntry>, StorageError> {
        match self.host.native().open(path) {
            Err(error) if error.is_missing() => {
                let (Some(parent), Some(name)) = (path.parent(), path.components().last()) else {
                    return Err(error.into());
                };
                let parent = self.open_or_make(&parent)?;
                Ok(parent.create_directory(name.as_str())?)
            }
            opened => Ok(opened?),
        }
    }
}

pub(super) fn is_taken(error: &HostError) -> bool {
    error.is_win32(crate::host::code::ALREADY_EXISTS) || error.is_win32(crate::host::code::FILE_EXISTS)
}

pub(super) fn link_on_the_way(path: &WinPath, component: &Component, kind: &EntryKind) -> WayError {
    let what = match kind {
        EntryKind::SymbolicLink { .. } => "a symbolic link",
        EntryKind::Junction { .. } => "a junction",
        EntryKind::MountPoint(_) => "a volume mount point",
        EntryKind::OtherReparse(_) => "a reparse point of an unknown kind",
        EntryKind::File | EntryKind::Directory => "not a directory",
    };
    WayError::Link { path: path.to_string(), component: component.to_string(), what }
}

pub(super) fn missing(path: &WinPath) -> StorageError {
    StorageError::Missing { path: path.to_string() }
}

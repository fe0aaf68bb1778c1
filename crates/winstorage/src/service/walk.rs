//! The way from a working directory down to what a path names: each component is opened in the one above it, itself and not what it
//! leads to, so that nobody can put a link between the check and the use.

use crate::host::{EntryKind, FsEntry, HostError};
use crate::path::Allowed;
use crate::types::{Component, WinPath};
use crate::{Storage, StorageError, WayError};

/// Whether the way may lead into a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MountPoints {
    Refused,
    Crossed,
}

/// Where a path ends.
pub(super) enum Place {
    /// At the working directory itself.
    Root(Box<dyn FsEntry>),
    /// At `name` in `parent`; the entry itself where there is one.
    In { parent: Box<dyn FsEntry>, name: String, entry: Option<Box<dyn FsEntry>> },
    /// Above: a component on the way is not there, or is a file.
    Nowhere,
}

impl Place {
    /// What is there, wherever it is.
    pub(super) fn entry(self) -> Option<Box<dyn FsEntry>> {
        match self {
            Self::Root(entry) => Some(entry),
            Self::In { entry, .. } => entry,
            Self::Nowhere => None,
        }
    }
}

impl Storage {
    /// Goes down to where `allowed` ends. Links above the last component are not followed: they are errors.
    pub(super) fn walk(&self, allowed: &Allowed, crossing: MountPoints) -> Result<Place, StorageError> {
        let mut at = match self.host.open(&allowed.root) {
            Err(error) if error.is_missing() => return Ok(Place::Nowhere),
            opened => opened?,
        };
        let Some((last, above)) = allowed.below.split_last() else { return Ok(Place::Root(at)) };
        for name in above {
            let Some(child) = at.child(name.as_str())? else { return Ok(Place::Nowhere) };
            at = match child.kind()? {
                EntryKind::Directory => child,
                EntryKind::File => return Ok(Place::Nowhere),
                EntryKind::MountPoint(volume) if crossing == MountPoints::Crossed => self.host.open_volume(&volume)?,
                kind => return Err(link_on_the_way(&allowed.path, name, &kind).into()),
            };
        }
        let entry = at.child(last.as_str())?;
        Ok(Place::In { parent: at, name: last.as_str().to_owned(), entry })
    }

    /// The directory that `allowed` names, made with all that lack above it.
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
                // Somebody else made it meanwhile, whatever it is.
                Err(error) if is_taken(&error) => directory.child(name.as_str())?.ok_or(error)?,
                made => return Ok(made?),
            },
        };
        match child.kind()? {
            EntryKind::Directory => Ok(child),
            EntryKind::File => Err(WayError::NotADirectory { path: path.to_string() }.into()),
            // A link or mount point at the end is a directory that is there, for whoever makes directories.
            _ if is_last && child.leads_somewhere()? => Ok(child),
            kind => Err(link_on_the_way(path, name, &kind).into()),
        }
    }

    /// The administrator's directory: followed wherever it leads, and made where it lacks.
    fn open_or_make(&self, path: &WinPath) -> Result<Box<dyn FsEntry>, StorageError> {
        match self.host.open(path) {
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

/// Windows' words for "there is something of that name".
pub(super) fn is_taken(error: &HostError) -> bool {
    error.is_win32(crate::host::code::ALREADY_EXISTS) || error.is_win32(crate::host::code::FILE_EXISTS)
}

pub(super) fn link_on_the_way(path: &WinPath, component: &Component, kind: &EntryKind) -> WayError {
    let what = match kind {
        EntryKind::SymbolicLink { .. } => "a symbolic link",
        EntryKind::Junction { .. } => "a junction",
        EntryKind::MountPoint(_) => "a volume mount point",
        EntryKind::OtherReparse(_) => "a reparse point of an unknown kind",
        EntryKind::File | EntryKind::Directory => "no directory",
    };
    WayError::Link { path: path.to_string(), component: component.to_string(), what }
}

pub(super) fn missing(path: &WinPath) -> StorageError {
    StorageError::Missing { path: path.to_string() }
}

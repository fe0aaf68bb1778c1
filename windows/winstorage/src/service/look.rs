//! The kind of entry that is at a path.

use super::walk::MountPoints;
use crate::host::EntryKind;
use crate::types::VolumeGuid;
use crate::{Storage, StorageError};

/// What is at a path. A link is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Missing,
    File,
    Directory {
        empty: bool,
    },
    /// A symbolic link or a junction.
    Link {
        target: String,
    },
    MountPoint(VolumeGuid),
    Other,
}

impl Storage {
    pub fn look(&self, path: &str) -> Result<Found, StorageError> {
        let allowed = self.paths.check(path)?;
        let Some(entry) = self.walk(&allowed, MountPoints::Refused)?.entry() else { return Ok(Found::Missing) };
        Ok(match entry.kind()? {
            EntryKind::File => Found::File,
            EntryKind::Directory => Found::Directory { empty: entry.children()?.is_empty() },
            EntryKind::SymbolicLink { target, .. } | EntryKind::Junction { target } => Found::Link { target },
            EntryKind::MountPoint(volume) => Found::MountPoint(volume),
            EntryKind::OtherReparse(_) => Found::Other,
        })
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("nothing"),
            Self::File => f.write_str("a file"),
            Self::Directory { empty: true } => f.write_str("an empty directory"),
            Self::Directory { empty: false } => f.write_str("a directory that is not empty"),
            Self::Link { target } => write!(f, "a link to {target}"),
            Self::MountPoint(volume) => write!(f, "a mount point of {volume}"),
            Self::Other => f.write_str("a reparse point of an unknown kind"),
        }
    }
}

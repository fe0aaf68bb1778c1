//! Operations on paths: existence, directories, links. `remove.rs` contains the removal.

use super::volume_of_path::{HOPS, too_many_links};
use super::walk::{MountPoints, Place, is_taken, missing};
use crate::host::{EntryKind, Space};
use crate::path::Allowed;
use crate::{Storage, StorageError, WayError};

impl Storage {
    /// Returns whether a path exists. A dangling link counts as existing.
    pub fn path_exists(&self, path: &str) -> Result<bool, StorageError> {
        let allowed = self.paths.check(path)?;
        Ok(self.walk(&allowed, MountPoints::Crossed)?.entry().is_some())
    }

    /// Creates a directory and its missing parents. Succeeds if the directory exists.
    pub fn mkdir(&self, path: &str) -> Result<(), StorageError> {
        let allowed = self.paths.check(path)?;
        self.make_directories(&allowed)
    }

    /// Creates the symbolic link `link` to `source`. Succeeds if the link already exists with this target.
    pub fn create_symlink(&self, source: &str, link: &str) -> Result<(), StorageError> {
        let link = self.paths.check(link)?;
        let source = self.paths.check(source)?;
        let is_directory = match self.walk(&source, MountPoints::Refused)?.entry() {
            Some(entry) => !matches!(entry.kind()?, EntryKind::File),
            // The target may be created later. It will be a directory, because plugins do not link to files.
            None => true,
        };
        self.link(&link, &source.path.to_string(), is_directory)
    }

    /// Returns whether the path is a link or mount point whose target exists.
    pub fn is_symlink(&self, path: &str) -> Result<bool, StorageError> {
        let allowed = self.paths.check_unlike_reference(path)?;
        let Some(entry) = self.walk(&allowed, MountPoints::Crossed)?.entry() else {
            return Err(missing(&allowed.path));
        };
        match entry.kind()? {
            EntryKind::MountPoint(_) => Ok(entry.leads_somewhere()?),
            EntryKind::SymbolicLink { target, .. } | EntryKind::Junction { target } => {
                // The user of a volume controls its contents. Following a link in them may make this machine log in to
                // another one.
                if matches!(self.walk(&allowed, MountPoints::Refused), Err(StorageError::Way(_))) {
                    let reason = "is not followed: the link is in a volume";
                    return Err(WayError::Target { path: allowed.path.to_string(), target, reason }.into());
                }
                Ok(entry.leads_somewhere()?)
            }
            EntryKind::File | EntryKind::Directory | EntryKind::OtherReparse(_) => Ok(false),
        }
    }

    /// Returns the space of the volume that contains the path. Follows a link in the last component if its target is
    /// allowed.
    pub fn space(&self, path: &str) -> Result<Space, StorageError> {
        let mut allowed = self.paths.check_unlike_reference(path)?;
        for _ in 0..HOPS {
            let Some(entry) = self.walk(&allowed, MountPoints::Crossed)?.entry() else {
                return Err(missing(&allowed.path));
            };
            match entry.kind()? {
                EntryKind::SymbolicLink { target, .. } | EntryKind::Junction { target } => {
                    allowed = self.target_of(&allowed, &target)?;
                }
                _ => return Ok(self.host.native().space(&allowed.path)?),
            }
        }
        Err(too_many_links(path, &allowed))
    }

    pub(super) fn link(&self, at: &Allowed, target: &str, is_directory: bool) -> Result<(), StorageError> {
        let exists = || WayError::Exists { path: at.path.to_string() };
        let (parent, name, entry) = match self.walk(at, MountPoints::Refused)? {
            Place::Root(_) => return Err(exists().into()),
            Place::Nowhere => return Err(missing(&at.path.parent().unwrap_or_else(|| at.path.clone()))),
            Place::In { parent, name, entry } => (parent, name, entry),
        };
        let entry = match entry {
            Some(entry) => entry,
            None => match parent.create_link(&name, target, is_directory) {
                Err(error) if is_taken(&error) => parent.child(&name)?.ok_or(error)?,
                made => return Ok(made?),
            },
        };
        match entry.kind()? {
            EntryKind::SymbolicLink { target: there, .. } if is_same_target(&there, target) => Ok(()),
            _ => Err(exists().into()),
        }
    }
}

/// Compares link targets as Windows does: the prefix, a final separator and the case of ASCII letters make no
/// difference.
fn is_same_target(one: &str, other: &str) -> bool {
    fn plain(target: &str) -> String {
        let target = target.strip_prefix(r"\\?\").or_else(|| target.strip_prefix(r"\??\")).unwrap_or(target);
        let share = target.get(..4).filter(|start| start.eq_ignore_ascii_case(r"UNC\"));
        let target = share.map_or_else(|| target.to_owned(), |_| format!(r"\\{}", &target[4..]));
        target.trim_end_matches('\\').to_ascii_lowercase()
    }
    plain(one) == plain(other)
}

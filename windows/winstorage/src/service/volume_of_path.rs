//! Finds the volume of a path. A pod's path is a link to the staging path, which is a mount point.

use super::walk::{MountPoints, link_on_the_way, missing};
use crate::host::EntryKind;
use crate::path::Allowed;
use crate::types::{VolumeGuid, WinPath};
use crate::{Storage, StorageError, WayError};

/// Maximum number of links to follow plus parent directories to visit, as in the Go proxy.
pub(super) const HOPS: u32 = 32;
/// Maximum number of links to follow plus parent directories to visit, as in the reference.
const STEPS: u32 = 256;

enum Step {
    Volume(VolumeGuid),
    /// Follow a link that clients control. Its target must be an allowed path.
    Follow(WinPath),
    /// Continue with the parent of a directory that the administrator controls.
    Above(WinPath),
}

impl Storage {
    /// Returns the volume of a mount point, or of a link to a mount point.
    pub fn volume_of_path(&self, path: &str) -> Result<VolumeGuid, StorageError> {
        if path.is_empty() {
            return Err(StorageError::Empty("target path is empty"));
        }
        let mut allowed = self.paths.check_unlike_reference(path)?;
        for _ in 0..HOPS {
            let Some(entry) = self.walk(&allowed, MountPoints::Refused)?.entry() else {
                return Err(missing(&allowed.path));
            };
            match entry.kind()? {
                EntryKind::MountPoint(volume) => return Ok(volume),
                EntryKind::SymbolicLink { target, .. } | EntryKind::Junction { target } => {
                    allowed = self.target_of(&allowed, &target)?;
                }
                EntryKind::File | EntryKind::Directory | EntryKind::OtherReparse(_) => {
                    return Err(StorageError::NotMounted { path: path.to_owned() });
                }
            }
        }
        Err(too_many_links(path, &allowed))
    }

    /// Returns the volume that contains the path: the volume of the closest mount point above it, or of its drive.
    /// Errors: as [`Self::volume_of_path`], except that every directory has a volume. Fails after 256 steps.
    pub fn closest_volume_of_path(&self, path: &str) -> Result<VolumeGuid, StorageError> {
        if path.is_empty() {
            return Err(StorageError::Empty("target path is empty"));
        }
        let closest = |cause| StorageError::Closest { path: path.to_owned(), cause: Box::new(cause) };
        let allowed = self.paths.check_unlike_reference(path).map_err(|error| closest(error.into()))?;
        let mut step = Ok(Step::Follow(allowed.path));
        for _ in 0..STEPS {
            step = match step.map_err(closest)? {
                Step::Volume(volume) => return Ok(volume),
                Step::Follow(at) => self.closest_below(&at),
                Step::Above(at) => self.closest_above(&at),
            };
        }
        Err(StorageError::NoClosest(path.to_owned()))
    }

    /// Searches a path below a working directory, and finds the path's deepest mount point unless the path is a link.
    fn closest_below(&self, path: &WinPath) -> Result<Step, StorageError> {
        let allowed = self.paths.check_unlike_reference(&path.to_string())?;
        let mut at = match self.host.native().open(&allowed.root) {
            Err(error) if error.is_missing() => return Err(missing(&allowed.path)),
            opened => opened?,
        };
        let mut mounted = None;
        for (depth, name) in allowed.below.iter().enumerate() {
            let child = at.child(name.as_str())?.ok_or_else(|| missing(&allowed.path))?;
            let is_last = depth + 1 == allowed.below.len();
            at = match child.kind()? {
                EntryKind::Directory | EntryKind::File => child,
                EntryKind::MountPoint(volume) => {
                    let root = self.host.native().open_volume(&volume)?;
                    mounted = Some(volume);
                    root
                }
                // The user of a volume controls its contents, so do not follow a link in the contents: the path belongs
                // to this volume.
                _ if is_last && mounted.is_some() => break,
                EntryKind::SymbolicLink { target, .. } | EntryKind::Junction { target } if is_last => {
                    return Ok(Step::Follow(self.target_of(&allowed, &target)?.path));
                }
                kind => return Err(link_on_the_way(&allowed.path, name, &kind).into()),
            };
        }
        Ok(mounted.map_or(Step::Above(allowed.root), Step::Volume))
    }

    /// Searches upwards, from a directory that the administrator controls to the drive. Follows links on the way.
    fn closest_above(&self, path: &WinPath) -> Result<Step, StorageError> {
        let (Some(parent), Some(name)) = (path.parent(), path.components().last()) else {
            return Ok(Step::Volume(self.host.native().volume_of_drive(path.drive())?));
        };
        let entry = self.host.native().open(&parent)?.child(name.as_str())?.ok_or_else(|| missing(path))?;
        Ok(match entry.kind()? {
            EntryKind::MountPoint(volume) => Step::Volume(volume),
            EntryKind::SymbolicLink { target, .. } | EntryKind::Junction { target } => {
                let to = WinPath::normalise(without_prefix(&target));
                Step::Above(to.ok_or_else(|| leads_out(path, &target, "is not an absolute path"))?)
            }
            EntryKind::File | EntryKind::Directory | EntryKind::OtherReparse(_) => Step::Above(parent),
        })
    }

    /// Returns the target of a link that clients control. Fails unless clients may use that path.
    pub(super) fn target_of(&self, link: &Allowed, target: &str) -> Result<Allowed, StorageError> {
        let allowed = self.paths.check_unlike_reference(without_prefix(target));
        Ok(allowed.map_err(|_| leads_out(&link.path, target, "is not within the working directories"))?)
    }
}

pub(super) fn too_many_links(path: &str, at: &Allowed) -> StorageError {
    let reason = "is reached through too many links";
    WayError::Target { path: path.to_owned(), target: at.path.to_string(), reason }.into()
}

fn leads_out(link: &WinPath, target: &str, reason: &'static str) -> WayError {
    WayError::Target { path: link.to_string(), target: target.to_owned(), reason }
}

fn without_prefix(target: &str) -> &str {
    target.strip_prefix(r"\\?\").unwrap_or(target)
}

//! Mounts volumes at directories.

use tracing::warn;

use super::guard::Ours;
use super::volume::volume_id;
use super::walk::{MountPoints, Place, link_on_the_way, missing};
use crate::host::{EntryKind, FsEntry, code};
use crate::path::Allowed;
use crate::types::{Component, VolumeGuid};
use crate::{Storage, StorageError, WayError};

impl Storage {
    /// Makes an empty directory a mount point of the volume. Succeeds if the directory already is one.
    pub fn mount_volume(&self, volume: &str, path: &str) -> Result<(), StorageError> {
        if volume.is_empty() {
            return Err(StorageError::Empty("MountVolumeRequest.VolumeId is empty"));
        }
        if path.is_empty() {
            return Err(StorageError::Empty("MountVolumeRequest.TargetPath is empty"));
        }
        let volume = volume_id(volume)?;
        let allowed = self.paths.check_unlike_reference(path)?;
        let disk = self.changeable_volume("MountVolume", &volume)?.disk.number;
        let _held = self.hold(disk, "MountVolume")?;
        let entry = self.mount_target("MountVolume", &allowed)?;
        if self.is_mounted(entry.as_ref(), &volume, &allowed)? {
            return Ok(());
        }
        match entry.mount(&volume) {
            // Another client has mounted a volume in the meantime, or the directory is not empty. The current kind of
            // the entry shows which is the case.
            Err(error) if error.is_win32(code::DIR_NOT_EMPTY) => {
                let entry = self.mount_target("MountVolume", &allowed)?;
                let is_mounted = self.is_mounted(entry.as_ref(), &volume, &allowed)?;
                is_mounted.then_some(()).ok_or_else(|| WayError::NotEmpty { path: allowed.path.to_string() }.into())
            }
            mounted => Ok(mounted?),
        }
    }

    /// Flushes the volume and makes its mount point an empty directory. Succeeds if the directory is not a mount point.
    /// After a failed flush, the volume stays mounted.
    pub fn unmount_volume(&self, volume: &str, path: &str) -> Result<(), StorageError> {
        let volume = volume_id(volume)?;
        if path.is_empty() {
            return Err(StorageError::Empty("target path empty"));
        }
        let allowed = self.paths.check_unlike_reference(path)?;
        let entry = self.mount_target("UnmountVolume", &allowed)?;
        if !self.is_mounted(entry.as_ref(), &volume, &allowed)? {
            return Ok(());
        }
        let ours = self.changeable_volume("UnmountVolume", &volume)?;
        let _held = self.hold(ours.disk.number, "UnmountVolume")?;
        // Another client may have unmounted the volume in the meantime.
        if !self.is_mounted(entry.as_ref(), &volume, &allowed)? {
            return Ok(());
        }
        self.flush(&ours)?;
        Ok(entry.unmount()?)
    }

    /// Flushes the volume's cache. If Windows has made the disk read-only, makes it writable first.
    fn flush(&self, ours: &Ours) -> Result<(), StorageError> {
        let failed = match self.host.flush(&ours.row) {
            Err(error) if ours.disk.is_read_only => error,
            flushed => return Ok(flushed?),
        };
        warn!(volume = %ours.row.id, error = %failed, "flush failed on a read-only disk, making it writable and flushing again");
        self.make_writable(&ours.disk)?;
        Ok(self.host.flush(&ours.row)?)
    }

    fn mount_target(&self, operation: &'static str, allowed: &Allowed) -> Result<Box<dyn FsEntry>, StorageError> {
        match self.walk(allowed, MountPoints::Refused)? {
            Place::Root(_) => Err(WayError::WorkingDirectory { operation, path: allowed.path.to_string() }.into()),
            place => place.entry().ok_or_else(|| missing(&allowed.path)),
        }
    }

    /// Returns whether `entry` is a mount point of `volume`. Returns false for a plain directory, and an error for any
    /// other kind.
    fn is_mounted(&self, entry: &dyn FsEntry, volume: &VolumeGuid, allowed: &Allowed) -> Result<bool, StorageError> {
        let path = allowed.path.to_string();
        match entry.kind()? {
            EntryKind::Directory => Ok(false),
            EntryKind::MountPoint(mounted) if mounted == *volume => Ok(true),
            EntryKind::MountPoint(mounted) => {
                Err(StorageError::MountedElsewhere { path, mounted, wanted: volume.clone() })
            }
            EntryKind::File => Err(WayError::NotADirectory { path }.into()),
            kind => {
                let name = allowed.below.last().cloned().unwrap_or_else(|| Component::new(""));
                Err(link_on_the_way(&allowed.path, &name, &kind).into())
            }
        }
    }
}

//! Devices that disappear, and devices whose I/O fails.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Advice;

use super::copy::copy;
use super::loop_plane::LoopPlane;

impl LoopPlane {
    /// Removes a volume's device while it may be in use. New users cannot open it, and it disappears when its current
    /// users close it. The kernel offers no stronger removal of a loop device.
    pub(super) fn cut(&self, volume: &str) -> io::Result<()> {
        let _devices = self.lock_devices();
        for connected in self.devices_of(volume)? {
            self.release(&connected)?;
        }
        self.release_lower(volume)?;
        self.by_id.remove(volume)
    }

    /// Makes reads, writes and flushes of a volume fail. Keeps a copy of the flushed data. Exception: for a volume with
    /// only one device, writes succeed and are lost when the volume heals.
    pub(super) fn break_io(&self, volume: &str) -> io::Result<()> {
        let _devices = self.lock_devices();
        let (image, kept) = (self.volumes.file(volume), self.kept(volume));
        if kept.exists() {
            return Ok(());
        }
        for connected in self.devices_of(volume)? {
            File::open(connected.device())?.sync_all()?;
        }
        let lower = self.lower_of(volume)?;
        if let Some(lower) = &lower {
            self.losetup.set_read_only(&lower.device(), true)?;
            File::open(lower.device())?.sync_all()?;
        }
        copy(&image, &kept)?;
        // Reads beyond the end of the lower device fail, and the upper device reports them as I/O errors.
        OpenOptions::new().write(true).open(&image)?.set_len(0)?;
        if let Some(lower) = &lower {
            self.losetup.take_over_size(&lower.device())?;
        }
        self.forget_cached(volume)
    }

    pub(super) fn heal_io(&self, volume: &str) -> io::Result<()> {
        let _devices = self.lock_devices();
        let kept = self.kept(volume);
        if !kept.exists() {
            return Ok(());
        }
        copy(&kept, &self.volumes.file(volume))?;
        if let Some(lower) = self.lower_of(volume)? {
            // Restore the size last, so that a disk that can be read can also be written.
            self.losetup.set_read_only(&lower.device(), false)?;
            self.losetup.take_over_size(&lower.device())?;
        }
        self.forget_cached(volume)?;
        std::fs::remove_file(kept)
    }

    pub(super) fn forget_kept(&self, volume: &str) -> io::Result<()> {
        match std::fs::remove_file(self.kept(volume)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn kept(&self, volume: &str) -> PathBuf {
        self.volumes.dir().join(Path::new(volume).with_extension("img.kept"))
    }

    /// Drops the kernel's cache of a device, which would hide the new content.
    fn forget_cached(&self, volume: &str) -> io::Result<()> {
        for connected in self.lower_of(volume)?.into_iter().chain(self.devices_of(volume)?) {
            let device = File::open(connected.device())?;
            rustix::fs::fadvise(&device, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }
}

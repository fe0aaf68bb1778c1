//! Devices that vanish, and devices whose I/O fails.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Advice;

use super::copy::copy;
use super::loop_plane::LoopPlane;

impl LoopPlane {
    /// Takes a volume's device away under its users: it is gone for newcomers, and for those who have it when they
    /// close it. The kernel has no harder way for a loop device.
    pub(super) fn cut(&self, volume: &str) -> io::Result<()> {
        let _devices = self.lock_devices();
        for connected in self.devices_of(volume)? {
            self.release(&connected)?;
        }
        self.release_lower(volume)?;
        self.by_id.remove(volume)
    }

    /// Lets reads, writes and flushes fail. What was flushed before is kept aside. Where the volume has one device only, its
    /// writes succeed and are lost when the volume heals.
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
        // Behind its end there is nothing to read, which the device above reports as an I/O error.
        OpenOptions::new().write(true).open(&image)?.set_len(0)?;
        if let Some(lower) = &lower {
            self.losetup.take_over_size(&lower.device())?;
        }
        self.forget_cached(volume)
    }

    /// Gives a broken volume its data back.
    pub(super) fn heal_io(&self, volume: &str) -> io::Result<()> {
        let _devices = self.lock_devices();
        let kept = self.kept(volume);
        if !kept.exists() {
            return Ok(());
        }
        copy(&kept, &self.volumes.file(volume))?;
        if let Some(lower) = self.lower_of(volume)? {
            self.losetup.take_over_size(&lower.device())?;
            self.losetup.set_read_only(&lower.device(), false)?;
        }
        self.forget_cached(volume)?;
        std::fs::remove_file(kept)
    }

    /// Removes what was kept of a volume that goes.
    pub(super) fn forget_kept(&self, volume: &str) -> io::Result<()> {
        match std::fs::remove_file(self.kept(volume)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn kept(&self, volume: &str) -> PathBuf {
        self.volumes.dir().join(Path::new(volume).with_extension("img.kept"))
    }

    /// What the kernel remembers of a device would hide what is behind it now.
    fn forget_cached(&self, volume: &str) -> io::Result<()> {
        for connected in self.lower_of(volume)?.into_iter().chain(self.devices_of(volume)?) {
            let device = File::open(connected.device())?;
            rustix::fs::fadvise(&device, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }
}

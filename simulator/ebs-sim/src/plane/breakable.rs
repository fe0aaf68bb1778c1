//! Devices with switchable I/O failures.
//!
//! The kernel cannot make a loop device fail, but a loop device over another block device reports that device's
//! failures. So a volume whose I/O is going to fail gets two devices: a lower one over the volume's file, and the
//! volume's own device above the lower one. To break the volume, the lower device is made read-only and empty.
//!
//! A separate directory has two files for each such volume: a hard link to its file, and a device file of the lower
//! device. The latter has the volume's name, because a simulated disk is identified by its file's name.

use std::io;
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode};

use super::loop_plane::LoopPlane;
use super::sysfs::{self, Connected};

const DIRECTORY: &str = "breakable";

impl LoopPlane {
    pub(super) fn breakable_dir(&self) -> PathBuf {
        self.volumes.dir().join(DIRECTORY)
    }

    pub(super) fn upper_file(&self, volume: &str) -> PathBuf {
        self.breakable_dir().join(format!("{volume}.img"))
    }

    fn lower_file(&self, volume: &str) -> PathBuf {
        self.breakable_dir().join(format!("{volume}.data"))
    }

    /// Returns the lower device of a volume. Without one (`None`), its I/O cannot be made to fail.
    pub(super) fn lower_of(&self, volume: &str) -> io::Result<Option<Connected>> {
        let file = self.lower_file(volume);
        Ok(sysfs::connected_below(&self.breakable_dir())?.into_iter().find(|connected| connected.file == file))
    }

    /// Connects a volume so that its I/O can be made to fail. Returns its device.
    pub(super) fn connect_breakable(&self, volume: &str) -> io::Result<PathBuf> {
        self.connect_both(volume).inspect_err(|_| {
            if let Err(error) = self.forget_breakable(volume) {
                tracing::warn!(volume, %error, "failed to remove a lower device");
            }
        })
    }

    fn connect_both(&self, volume: &str) -> io::Result<PathBuf> {
        std::fs::create_dir_all(self.breakable_dir())?;
        let (lower, upper) = (self.lower_file(volume), self.upper_file(volume));
        for file in [&lower, &upper] {
            remove(file)?;
        }
        std::fs::hard_link(self.volumes.file(volume), &lower)?;
        let device = self.losetup.connect(&lower)?;
        let number = rustix::fs::stat(&device)?.st_rdev;
        rustix::fs::mknodat(CWD, &upper, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, number)?;
        self.losetup.connect(&upper)
    }

    /// Releases the lower device of a volume, which disappears immediately or together with the upper device. Removes
    /// the files of both.
    pub(super) fn forget_breakable(&self, volume: &str) -> io::Result<()> {
        self.release_lower(volume)?;
        for file in [self.lower_file(volume), self.upper_file(volume)] {
            remove(&file)?;
        }
        match std::fs::remove_dir(self.breakable_dir()) {
            Err(error) if ![io::ErrorKind::NotFound, io::ErrorKind::DirectoryNotEmpty].contains(&error.kind()) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn release_lower(&self, volume: &str) -> io::Result<()> {
        self.lower_of(volume)?.map_or(Ok(()), |lower| self.release(&lower))
    }

    /// Removes what a previous run left for volumes that are not connected.
    pub(super) fn sweep_breakable(&self, is_connected: impl Fn(&str) -> bool) -> io::Result<()> {
        let entries = match std::fs::read_dir(self.breakable_dir()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let volume = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if !is_connected(volume) {
                self.forget_breakable(volume)?;
            }
        }
        Ok(())
    }
}

fn remove(file: &PathBuf) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

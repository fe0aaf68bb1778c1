//! Volumes as files. Attached volumes are loop devices with the links that udev would create.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::state::{Effect, Outcome, Source};

use super::PlaneError;
use super::backing::Backing;
use super::by_id::ById;
use super::copy::Copied;
use super::losetup::Losetup;
use super::sysfs::{self, Connected};

/// How many times the data plane tries to copy a volume that is being written.
const COPY_TRIES: usize = 20;

#[derive(Debug)]
pub(crate) struct LoopPlane {
    pub(super) volumes: Backing,
    pub(super) snapshots: Backing,
    pub(super) by_id: ById,
    pub(super) losetup: Losetup,
    /// Held while devices change, so that only one thread connects, disconnects or grows a device at a time.
    devices: Mutex<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disconnected {
    Yes,
    /// The device is open. It disappears when its users close it.
    WithLastUser,
    /// The device is mounted, so it was left connected.
    Mounted,
}

impl LoopPlane {
    pub(crate) fn open(state_dir: &Path, by_id_dir: &Path) -> Result<Self, PlaneError> {
        if !rustix::process::geteuid().is_root() {
            return Err(PlaneError::Missing(
                "open loop devices: root required; run the simulator as root, or use --devices none".to_owned(),
            ));
        }
        if !Path::new("/dev/loop-control").exists() {
            return Err(PlaneError::Missing(
                "open /dev/loop-control: not found; load the loop module (modprobe loop), or use --devices none"
                    .to_owned(),
            ));
        }
        let backing = |name| {
            let dir = state_dir.join(name);
            Backing::open(dir.clone()).map_err(|source| PlaneError::Create { path: dir, source })
        };
        Ok(Self {
            volumes: backing("devices")?,
            snapshots: backing("snapshots")?,
            by_id: ById::new(by_id_dir),
            losetup: Losetup::find().map_err(PlaneError::Missing)?,
            devices: Mutex::new(()),
        })
    }

    pub(super) fn lock_devices(&self) -> MutexGuard<'_, ()> {
        // The lock only serializes operations, so a panic leaves no partial state.
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn carry_out(&self, effect: &Effect) -> Outcome {
        let done = match effect {
            Effect::CreateBacking { volume, gib, source: Source::Blank } => self.volumes.make_blank(volume, *gib),
            Effect::CreateBacking { volume, gib, source: Source::Snapshot(id) } => {
                self.volumes.make_copy(volume, &self.snapshots.file(id), Some(*gib)).map(drop)
            }
            Effect::CopyVolume { source, volume, gib } => {
                self.at_one_moment(source, || self.volumes.make_copy(volume, &self.volumes.file(source), Some(*gib)))
            }
            Effect::CopyToSnapshot { volume, snapshot } => {
                self.at_one_moment(volume, || self.snapshots.make_copy(snapshot, &self.volumes.file(volume), None))
            }
            Effect::Connect { volume, linked, breakable, .. } => match self.connect(volume, *linked, *breakable) {
                Ok(device) => return Outcome::Done(Some(device)),
                Err(error) => Err(error),
            },
            Effect::Disconnect { volume, force, .. } => match self.disconnect(volume) {
                Ok(Disconnected::WithLastUser | Disconnected::Mounted) if *force => self.cut(volume),
                Ok(Disconnected::WithLastUser | Disconnected::Mounted) => return Outcome::Busy,
                Ok(Disconnected::Yes) => Ok(()),
                Err(error) => Err(error),
            },
            Effect::Grow { volume, gib } => self.grow(volume, *gib),
            Effect::Vanish { volume } => self.cut(volume),
            Effect::BreakIo { volume } => self.break_io(volume),
            Effect::HealIo { volume } => self.heal_io(volume),
            Effect::DeleteBacking { volume } => self.volumes.remove(volume).and_then(|()| self.forget_kept(volume)),
            Effect::DeleteSnapshotData { snapshot } => self.snapshots.remove(snapshot),
        };
        match done {
            Ok(()) => Outcome::Done(None),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    /// Returns the device of a volume, if it has one. Of two devices, returns the upper one.
    pub(super) fn devices_of(&self, volume: &str) -> io::Result<Vec<Connected>> {
        let files = [self.volumes.file(volume), self.upper_file(volume)];
        Ok(self.connected()?.into_iter().filter(|c| files.contains(&c.file)).collect())
    }

    /// Returns every device of the simulator's volumes, including lower devices.
    pub(super) fn connected(&self) -> io::Result<Vec<Connected>> {
        let mut found = sysfs::connected_below(self.volumes.dir())?;
        found.extend(sysfs::connected_below(&self.breakable_dir())?);
        Ok(found)
    }

    fn connect(&self, volume: &str, linked: bool, breakable: bool) -> io::Result<String> {
        let _devices = self.lock_devices();
        let device = match self.devices_of(volume)?.into_iter().next() {
            // Do not reuse the device, which will disappear. A second device over the same file would corrupt the data.
            Some(connected) if sysfs::goes_with_last_user(&connected.name) => {
                return Err(io::Error::other(format!(
                    "{} of {volume} is still in use after it was disconnected; unmount or close it before connecting the volume again",
                    connected.device().display()
                )));
            }
            Some(connected) => connected.device(),
            None => self.connect_new(volume, breakable)?,
        };
        let name = device.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if linked {
            self.by_id.point(volume, name)?;
        } else {
            self.by_id.remove(volume)?;
        }
        Ok(device.to_string_lossy().into_owned())
    }

    fn connect_new(&self, volume: &str, breakable: bool) -> io::Result<PathBuf> {
        if breakable {
            match self.connect_breakable(volume) {
                Ok(device) => return Ok(device),
                Err(error) => tracing::warn!(
                    volume, %error,
                    "state directory does not support device files, so simulated I/O failures lose writes to this volume instead of rejecting them"
                ),
            }
        }
        self.losetup.connect(&self.volumes.file(volume))
    }

    fn disconnect(&self, volume: &str) -> io::Result<Disconnected> {
        let _devices = self.lock_devices();
        for connected in self.devices_of(volume)? {
            // A device that is open exclusively cannot be mounted, and a mounted device cannot be opened exclusively.
            let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
            let exclusive = match rustix::fs::open(connected.device(), flags, Mode::empty()) {
                Ok(exclusive) => exclusive,
                Err(Errno::BUSY) => return Ok(Disconnected::Mounted),
                Err(error) => return Err(error.into()),
            };
            if sysfs::file_of(&connected.name).as_ref() != Some(&connected.file) {
                continue;
            }
            self.by_id.remove(volume)?;
            self.losetup.disconnect(&connected.device())?;
            drop(exclusive);
            // A device that a process has open without a mount stays until the process closes the device.
            if sysfs::file_of(&connected.name).as_ref() == Some(&connected.file) {
                return Ok(Disconnected::WithLastUser);
            }
        }
        self.by_id.remove(volume)?;
        self.forget_breakable(volume)?;
        Ok(Disconnected::Yes)
    }

    /// Marks a device to disappear when its last user closes it, or immediately if it has no user. Holds the device
    /// open in the meantime. Otherwise another program could release the device and connect its own file to it between
    /// the check and the disconnect.
    pub(super) fn release(&self, connected: &Connected) -> io::Result<()> {
        let held = File::open(connected.device())?;
        if sysfs::file_of(&connected.name).as_ref() == Some(&connected.file) {
            self.losetup.disconnect(&connected.device())?;
        }
        drop(held);
        Ok(())
    }

    fn grow(&self, volume: &str, gib: u32) -> io::Result<()> {
        let _devices = self.lock_devices();
        self.volumes.extend(volume, gib)?;
        // Grow the lower device first: the upper one takes its size from it.
        for connected in self.lower_of(volume)?.into_iter().chain(self.devices_of(volume)?) {
            self.losetup.take_over_size(&connected.device())?;
        }
        Ok(())
    }

    /// Makes a point-in-time copy of a volume's data. First writes the device's cache to the file. Discards a copy that
    /// overlapped with a write, and copies again.
    fn at_one_moment(&self, volume: &str, copy: impl Fn() -> io::Result<Copied>) -> io::Result<()> {
        for _ in 0..COPY_TRIES {
            let before = self.written(volume)?;
            if copy()? == Copied::ByReference || before == self.written_without_flush(volume)? {
                return Ok(());
            }
        }
        Err(io::Error::other(format!(
            "copy {volume}: the volume was written to during each of {COPY_TRIES} attempts; stop the writer, or put the state directory on XFS or Btrfs"
        )))
    }

    fn written(&self, volume: &str) -> io::Result<Vec<(String, Vec<u64>)>> {
        for connected in self.devices_of(volume)? {
            File::open(connected.device())?.sync_all()?;
        }
        self.written_without_flush(volume)
    }

    fn written_without_flush(&self, volume: &str) -> io::Result<Vec<(String, Vec<u64>)>> {
        self.devices_of(volume)?.into_iter().map(|c| sysfs::writes(&c.name).map(|writes| (c.name, writes))).collect()
    }

    /// Disconnects all devices of files below the directory. A device in use disappears when its last user closes it. A
    /// child process that is starting may briefly be such a user, so retry before you report the device.
    pub(crate) fn take_down(&self) -> Result<(), String> {
        let connected = self.connected().map_err(|e| format!("list loop devices: {e}"))?;
        let mut left = Vec::new();
        for device in connected {
            let Some(volume) = super::backing::id_of(&device.file) else { continue };
            match self.disconnect(volume) {
                Ok(Disconnected::Yes) => {}
                Ok(Disconnected::WithLastUser) => left.push(format!("{} of {volume}", device.device().display())),
                Ok(Disconnected::Mounted) => {
                    let marked = self.release(&device).and_then(|()| self.release_lower(volume));
                    let marked = marked.and_then(|()| self.by_id.remove(volume));
                    let note = marked.err().map(|e| format!(" ({e})")).unwrap_or_default();
                    left.push(format!("{} of {volume}{note}", device.device().display()));
                }
                Err(error) => left.push(format!("{} of {volume} ({error})", device.device().display())),
            }
        }
        if let Err(error) = self.sweep_breakable(|_| false) {
            left.push(format!("lower devices ({error})"));
        }
        if left.is_empty() {
            return Ok(());
        }
        Err(format!("disconnect loop devices: these remain until their last user closes them: {}", left.join(", ")))
    }
}

impl Drop for LoopPlane {
    fn drop(&mut self) {
        if let Err(left) = self.take_down() {
            tracing::warn!(left, "failed to remove loop devices");
        }
    }
}

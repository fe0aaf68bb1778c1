//! Finds other users of a disk: its mounts and binds in this mount table, and any other process or device that prevents
//! an exclusive open.
//!
//! Decision: `docs/decisions/0022-unstage-only-a-disk-that-nothing-holds.md`.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::bounded;
use crate::config::MounterConfig;
use crate::device::{Device, DeviceError, DeviceQuery};
use crate::device_number::DeviceNumber;
use crate::disk_holders;
use crate::disk_parts::{disk_directory, number_in, numbers_of};
use crate::mounter::Mounter;
use crate::mountinfo::{MountEntry, MountTable};
use crate::os;

/// How long a disk may stay busy after an unmount, because another process was just accessing the mount.
const LET_GO: Duration = Duration::from_secs(2);
const LET_GO_LOOK: Duration = Duration::from_millis(50);
/// Local file systems, on which device nodes may be. Accessing a bind from another file system could hang.
const LOCAL: [&str; 9] = ["devtmpfs", "tmpfs", "ramfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs"];
/// The kernel's suffix of the root of a bind whose file was deleted.
const DELETED: &[u8] = b"//deleted";

/// A device node of a disk that is bound to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawBind {
    pub at: PathBuf,
    /// The bound node was deleted: it belonged to a device that was detached since, and the disk has reused its number.
    pub is_former: bool,
}

/// The users of a disk or its partitions in this mount table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskUses {
    /// Mounts of its file systems.
    pub mounts: Vec<MountEntry>,
    /// Binds of its device nodes.
    pub raw: Vec<RawBind>,
    table: MountTable,
}

impl DiskUses {
    /// Returns the mounts of its file systems that would remain after everything at `at` is unmounted, that is, all
    /// mounts not visible there. A mount that is visible at a second path, because its parent directory is, disappears
    /// with the first.
    pub fn mounts_apart_from(&self, at: &Path) -> Vec<&MountEntry> {
        let seen = self.table.stack(at);
        let here: Vec<_> = seen.iter().map(|entry| self.place(entry)).collect();
        let stays = |entry: &&MountEntry| !seen.contains(entry) && !here.contains(&self.place(entry));
        self.mounts.iter().filter(stays).collect()
    }

    /// Returns the mount point's device and its path on that device.
    fn place(&self, entry: &MountEntry) -> Option<(DeviceNumber, PathBuf)> {
        let parent = self.table.entries().iter().find(|parent| parent.id == entry.parent && parent.id != entry.id)?;
        let below = entry.target.strip_prefix(&parent.target).ok()?;
        Some((parent.device, parent.root.join(below)))
    }
}

/// The result of an exclusive open of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// No process or device holds it, and all written data is on the disk.
    Free,
    /// It is proven to no longer exist.
    Gone,
    /// Another process or device holds it. Lists the holders, as far as this process can see them.
    Held(Vec<String>),
}

/// True if the node of a raw bind was deleted.
pub(crate) fn is_deleted(entry: &MountEntry) -> bool {
    entry.root.as_os_str().as_bytes().ends_with(DELETED)
}

impl Mounter {
    /// True if a disk without an identity may be the requested one, because the name from EC2 identifies it.
    pub fn trusts_silent_disks(&self) -> bool {
        self.config.xen
    }

    /// As [`Mounter::find`], but does not wait for a late device.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub async fn find_now(&self, query: &DeviceQuery) -> Result<Device, DeviceError> {
        let config = MounterConfig { late_device: Duration::ZERO, ..(*self.config).clone() };
        Self { config: Arc::new(config), ..self.clone() }.find(query).await
    }

    /// Returns the users of a disk and its partitions, given the number of any of them.
    ///
    /// # Errors
    /// When the mount table or sysfs cannot be read.
    pub async fn uses_of(&self, number: DeviceNumber) -> io::Result<DiskUses> {
        let table = MountTable::read().await.map_err(io::Error::other)?;
        let (config, entries) = (Arc::clone(&self.config), table.entries().to_vec());
        let place = self.config.sys.join("dev/block").join(number.to_string());
        let look = move || {
            let numbers = numbers_of(&config, number)?;
            let (mut mounts, mut raw) = (Vec::new(), Vec::new());
            for entry in entries {
                if entry.device.major != 0 && numbers.contains(&entry.device) {
                    mounts.push(entry);
                } else if leads_to(&config, &entry).into_iter().flatten().any(|number| numbers.contains(&number)) {
                    raw.push(RawBind { is_former: is_deleted(&entry), at: entry.target });
                }
            }
            Ok::<_, io::Error>((mounts, raw))
        };
        let (mounts, raw) = bounded::reading("finding the uses of", &place, look).await?;
        Ok(DiskUses { mounts, raw, table })
    }

    /// True if the kernel has built another device on a disk or one of its partitions: device mapper, md or bcache.
    ///
    /// # Errors
    /// When sysfs cannot be read.
    pub async fn is_built_on(&self, number: DeviceNumber) -> io::Result<bool> {
        let (config, place) = (Arc::clone(&self.config), self.config.sys.join("dev/block").join(number.to_string()));
        let look = move || disk_holders::stacked(&config, number).map(|found| !found.is_empty());
        bounded::reading("finding the devices on", &place, look).await
    }

    /// True if the disk of a raw bind no longer exists: its node was deleted, or the disk has a size of 0.
    ///
    /// # Errors
    /// The error of sysfs.
    pub async fn is_bound_disk_gone(&self, entry: &MountEntry, number: DeviceNumber) -> io::Result<bool> {
        if is_deleted(entry) {
            return Ok(true);
        }
        let place = self.config.sys.join("dev/block").join(number.to_string());
        let size = place.join("size");
        let look = move || match std::fs::read_to_string(size) {
            Ok(sectors) => Ok(sectors.trim() == "0"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        };
        bounded::reading("reading the size of", &place, look).await
    }

    /// Opens a disk exclusively for a moment. That fails while one of its file systems is mounted in any mount
    /// namespace, or while another process or device has claimed it. Waits for short uses that end by themselves. A
    /// free disk is flushed first, as by [`Mounter::flush`].
    ///
    /// # Errors
    /// The errors of the kernel and of [`Mounter::flush`], and that the open hangs.
    pub async fn hold_of(&self, number: DeviceNumber) -> io::Result<Hold> {
        let place = self.config.sys.join("dev/block").join(number.to_string());
        let deadline = Instant::now() + LET_GO;
        loop {
            let config = Arc::clone(&self.config);
            let open = move || open_exclusively(&config, number);
            match bounded::reading("opening exclusively", &place, open).await? {
                Opened::Exclusively(disk) => {
                    self.flush_held(number, Some(disk)).await?;
                    return Ok(Hold::Free);
                }
                Opened::Nothing => return Ok(Hold::Free),
                // Not found, and proven to no longer exist.
                Opened::Missing if !self.exists(number).await? => {
                    self.forget_failed_flush(number);
                    return Ok(Hold::Gone);
                }
                Opened::Missing => {
                    return Err(io::Error::other(format!("device {number} is listed in sysfs but has no device node")));
                }
                Opened::Held if Instant::now() < deadline => tokio::time::sleep(LET_GO_LOOK).await,
                Opened::Held => break,
            }
        }
        let config = Arc::clone(&self.config);
        let find = move || Ok::<_, io::Error>(disk_holders::of(&config, &numbers_of(&config, number)?));
        // The names of the holders are only additional information.
        let who = bounded::reading("finding the users of", &PathBuf::from(format!("device {number}")), find).await;
        Ok(Hold::Held(who.unwrap_or_default()))
    }
}

/// Returns the block devices of which a mount may be a bind: the one visible at its path, and for a node of the
/// kernel's device directory also the one with its name there, in case another mount hides it.
fn leads_to(config: &MounterConfig, entry: &MountEntry) -> [Option<DeviceNumber>; 2] {
    if entry.root == Path::new("/") || !LOCAL.contains(&entry.fs_type.as_str()) {
        return [None, None];
    }
    let at = |path: &Path| os::block_device_number(&std::fs::symlink_metadata(path).ok()?);
    let by_name = || at(&config.dev.join(entry.root.strip_prefix("/").ok()?));
    [at(&entry.target), if entry.fs_type == "devtmpfs" { by_name() } else { None }]
}

/// The result of an exclusive open.
enum Opened {
    Exclusively(File),
    /// The node exists but has no device.
    Nothing,
    Held,
    /// sysfs does not list the disk.
    Missing,
}

fn open_exclusively(config: &MounterConfig, number: DeviceNumber) -> io::Result<Opened> {
    let Some(disk) = disk_directory(config, number)? else { return Ok(Opened::Missing) };
    let node = config.dev.join(disk.file_name().unwrap_or_default());
    match File::options().read(true).custom_flags(libc::O_EXCL | libc::O_NONBLOCK | libc::O_CLOEXEC).open(&node) {
        Ok(opened) if os::block_device_number(&opened.metadata()?) == number_in(&disk) => {
            Ok(Opened::Exclusively(opened))
        }
        Ok(_) => Err(io::Error::other(format!("{} is not the disk with this name in sysfs", node.display()))),
        Err(error) => match error.raw_os_error() {
            Some(libc::EBUSY) => Ok(Opened::Held),
            // The kernel reports that the node has no device.
            Some(libc::ENXIO | libc::ENODEV) => Ok(Opened::Nothing),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests;

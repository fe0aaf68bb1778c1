//! What uses a disk besides the caller: mounts and binds of it in this mount table, and, beyond that, whoever keeps it
//! from being opened exclusively.
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

/// A mount that was taken away may be busy for a moment longer: whoever looked at it just then ends it.
const LET_GO: Duration = Duration::from_secs(2);
const LET_GO_LOOK: Duration = Duration::from_millis(50);
/// File systems of this machine alone, on which device nodes may lie. To look at what is bound from others could hang.
const LOCAL: [&str; 9] = ["devtmpfs", "tmpfs", "ramfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs"];
/// What the kernel appends to the root of a bind whose file was deleted.
const DELETED: &[u8] = b"//deleted";

/// A device node of a disk that is bound to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawBind {
    pub at: PathBuf,
    /// The node that was bound is deleted: it stood for a device that was detached since, whose number the disk has now.
    pub is_former: bool,
}

/// Who uses a disk or one of its partitions in this mount table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskUses {
    /// Mounts of file systems on it.
    pub mounts: Vec<MountEntry>,
    /// Binds of its device nodes.
    pub raw: Vec<RawBind>,
    table: MountTable,
}

impl DiskUses {
    /// The mounts of its file systems that would stay when everything at `at` is unmounted: all that are not seen there.
    /// A mount that is seen at a second path, because the directory below it is, goes with the first.
    pub fn mounts_apart_from(&self, at: &Path) -> Vec<&MountEntry> {
        let seen = self.table.stack(at);
        let here: Vec<_> = seen.iter().map(|entry| self.place(entry)).collect();
        let stays = |entry: &&MountEntry| !seen.contains(entry) && !here.contains(&self.place(entry));
        self.mounts.iter().filter(stays).collect()
    }

    /// What a mount lies on: the device of the mount below it and the path on that.
    fn place(&self, entry: &MountEntry) -> Option<(DeviceNumber, PathBuf)> {
        let parent = self.table.entries().iter().find(|parent| parent.id == entry.parent && parent.id != entry.id)?;
        let below = entry.target.strip_prefix(&parent.target).ok()?;
        Some((parent.device, parent.root.join(below)))
    }
}

/// What an exclusive open of a disk shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// No process or device holds it, and all that was written to it is on it.
    Free,
    /// It is proven not to be there any more.
    Gone,
    /// Somebody holds it; who, as far as this process can see.
    Held(Vec<String>),
}

/// True when a raw bind shows a node that is deleted.
pub(crate) fn is_deleted(entry: &MountEntry) -> bool {
    entry.root.as_os_str().as_bytes().ends_with(DELETED)
}

impl Mounter {
    /// True where a disk that says nothing of itself may be the one asked for: the name that EC2 reports tells.
    pub fn trusts_silent_disks(&self) -> bool {
        self.config.xen
    }

    /// Finds a device as [`Mounter::find`] does, and does not wait for one that is not there.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub async fn find_now(&self, query: &DeviceQuery) -> Result<Device, DeviceError> {
        let config = MounterConfig { late_device: Duration::ZERO, ..(*self.config).clone() };
        Self { config: Arc::new(config), ..self.clone() }.find(query).await
    }

    /// Who uses the disk that a number belongs to, or a partition of it.
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
        let (mounts, raw) = bounded::reading("looking for uses of", &place, look).await?;
        Ok(DiskUses { mounts, raw, table })
    }

    /// True when the kernel has built another device on a disk or one of its partitions: of the device mapper, md or bcache.
    ///
    /// # Errors
    /// When sysfs cannot be read.
    pub async fn is_built_on(&self, number: DeviceNumber) -> io::Result<bool> {
        let (config, place) = (Arc::clone(&self.config), self.config.sys.join("dev/block").join(number.to_string()));
        let look = move || disk_holders::stacked(&config, number).map(|found| !found.is_empty());
        bounded::reading("looking for devices on", &place, look).await
    }

    /// True when a raw bind shows nothing any more: its node was deleted with its disk, or the disk holds no byte.
    ///
    /// # Errors
    /// What sysfs says.
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
        bounded::reading("asking for the size", &place, look).await
    }

    /// Opens the disk that a number belongs to exclusively, for a moment: that fails while anybody has one of its file
    /// systems mounted, in whatever mount namespace, or works on it. Short uses that end by themselves are waited for. A disk
    /// that is free is flushed before the answer, as by [`Mounter::flush`].
    ///
    /// # Errors
    /// What the kernel says, also that the look hangs, and those of [`Mounter::flush`].
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
                // Not there, and proven to be gone.
                Opened::Missing if !self.exists(number).await? => {
                    self.forget_failed_flush(number);
                    return Ok(Hold::Gone);
                }
                Opened::Missing => {
                    return Err(io::Error::other(format!("device {number} is there and cannot be found")));
                }
                Opened::Held if Instant::now() < deadline => tokio::time::sleep(LET_GO_LOOK).await,
                Opened::Held => break,
            }
        }
        let config = Arc::clone(&self.config);
        let find = move || Ok::<_, io::Error>(disk_holders::of(&config, &numbers_of(&config, number)?));
        // Who it is helps; that somebody is there is known already.
        let who = bounded::reading("looking for who holds", &PathBuf::from(format!("device {number}")), find).await;
        Ok(Hold::Held(who.unwrap_or_default()))
    }
}

/// The block devices that a mount may be a bind of: by what is seen at its path, and for a node of the kernel's own
/// directory of devices also by its name there, should another mount lie on top.
fn leads_to(config: &MounterConfig, entry: &MountEntry) -> [Option<DeviceNumber>; 2] {
    if entry.root == Path::new("/") || !LOCAL.contains(&entry.fs_type.as_str()) {
        return [None, None];
    }
    let at = |path: &Path| os::block_device_number(&std::fs::symlink_metadata(path).ok()?);
    let by_name = || at(&config.dev.join(entry.root.strip_prefix("/").ok()?));
    [at(&entry.target), if entry.fs_type == "devtmpfs" { by_name() } else { None }]
}

/// What became of an exclusive open.
enum Opened {
    Exclusively(File),
    /// The node is there, and nothing behind it.
    Nothing,
    Held,
    /// sysfs lists no such disk.
    Missing,
}

fn open_exclusively(config: &MounterConfig, number: DeviceNumber) -> io::Result<Opened> {
    let Some(disk) = disk_directory(config, number)? else { return Ok(Opened::Missing) };
    let node = config.dev.join(disk.file_name().unwrap_or_default());
    match File::options().read(true).custom_flags(libc::O_EXCL | libc::O_NONBLOCK | libc::O_CLOEXEC).open(&node) {
        Ok(opened) if os::block_device_number(&opened.metadata()?) == number_in(&disk) => {
            Ok(Opened::Exclusively(opened))
        }
        Ok(_) => Err(io::Error::other(format!("{} is not the disk that sysfs lists by that name", node.display()))),
        Err(error) => match error.raw_os_error() {
            Some(libc::EBUSY) => Ok(Opened::Held),
            // The kernel's own word that nothing is behind the node.
            Some(libc::ENXIO | libc::ENODEV) => Ok(Opened::Nothing),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests;

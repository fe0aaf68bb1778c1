//! Finds the mounts of a disk, and whatever else prevents an exclusive open. Decision:
//! `docs/dev/decisions/0022-unstage-only-a-disk-that-nothing-holds.md`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags};
use tokio::time::Instant;

use crate::bounded;
use crate::config::MounterConfig;
use crate::disk_parts::{disk_directory, number_in, numbers_of, parts_of};
use crate::mounter::Mounter;
use crate::mountinfo::{MountEntry, MountTable};
use crate::os::{self, DeviceNumber};
use crate::tools::Program;

/// How long a disk may stay busy after an unmount, because another process was accessing the mount at that moment.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
const RELEASE_POLL: Duration = Duration::from_millis(50);
/// Local file systems, which may contain device nodes. Access to a bind from any other file system could hang.
const LOCAL: [&str; 9] = ["devtmpfs", "tmpfs", "ramfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs"];
/// The suffix that the kernel appends to the root of a bind whose file was deleted.
const DELETED: &[u8] = b"//deleted";

/// A disk's device node that is bound to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawBind {
    pub at: PathBuf,
    /// True if the bound device node was deleted. The node belonged to a detached device whose number the disk has now.
    pub is_former: bool,
}

/// The mounts and raw binds of a disk and its partitions in this mount table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskMounts {
    pub mounts: Vec<MountEntry>,
    pub raw: Vec<RawBind>,
    table: MountTable,
}

impl DiskMounts {
    /// Returns the mounts that would remain after everything at `at` is unmounted. A mount that also appears at a
    /// second path, because its parent directory is visible there too, disappears from both.
    pub fn mounts_not_at(&self, at: &Path) -> Vec<&MountEntry> {
        let seen = self.table.stack(at);
        let here: Vec<_> = seen.iter().map(|entry| self.mount_point(entry)).collect();
        let stays = |entry: &&MountEntry| !seen.contains(entry) && !here.contains(&self.mount_point(entry));
        self.mounts.iter().filter(stays).collect()
    }

    fn mount_point(&self, entry: &MountEntry) -> Option<(DeviceNumber, PathBuf)> {
        let parent = self.table.entries().iter().find(|parent| parent.id == entry.parent && parent.id != entry.id)?;
        let below = entry.target.strip_prefix(&parent.target).ok()?;
        Some((parent.device, parent.root.join(below)))
    }
}

/// The result of an exclusive open of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// No other process or device holds the disk, and all cached data is on the disk.
    Free,
    Gone,
    /// Another process or device holds the disk. Lists the holders that this process can see.
    Held(Vec<String>),
}

pub(crate) fn is_deleted(entry: &MountEntry) -> bool {
    entry.root.as_os_str().as_bytes().ends_with(DELETED)
}

impl Mounter {
    /// Returns the mounts and binds of a disk and its partitions in this mount table.
    pub async fn mounts_of_disk(&self, number: DeviceNumber) -> io::Result<DiskMounts> {
        let table = MountTable::read().await.map_err(io::Error::other)?;
        let (config, entries) = (Arc::clone(&self.config), table.entries().to_vec());
        let place = config.sys.join("dev/block").join(number.to_string());
        let read = move || {
            let numbers = numbers_of(&config, number)?;
            let (mut mounts, mut raw) = (Vec::new(), Vec::new());
            for entry in entries {
                if entry.device.major != 0 && numbers.contains(&entry.device) {
                    mounts.push(entry);
                } else if bound_devices(&config, &entry).into_iter().flatten().any(|number| numbers.contains(&number)) {
                    raw.push(RawBind { is_former: is_deleted(&entry), at: entry.target });
                }
            }
            Ok::<_, io::Error>((mounts, raw))
        };
        let (mounts, raw) = bounded::reading("finding the uses of", &place, read).await?;
        Ok(DiskMounts { mounts, raw, table })
    }

    /// True if the kernel has built another device on a disk: device mapper, md or bcache.
    pub async fn is_built_on(&self, number: DeviceNumber) -> io::Result<bool> {
        let (config, place) = (Arc::clone(&self.config), self.config.sys.join("dev/block").join(number.to_string()));
        let read = move || stacked(&config, number).map(|found| !found.is_empty());
        bounded::reading("finding the devices on", &place, read).await
    }

    /// True if the disk of a raw bind no longer exists: its node was deleted, or the disk has a size of 0.
    pub async fn is_bound_disk_gone(&self, entry: &MountEntry, number: DeviceNumber) -> io::Result<bool> {
        if is_deleted(entry) {
            return Ok(true);
        }
        let place = self.config.sys.join("dev/block").join(number.to_string());
        let size = place.join("size");
        let read =
            move || Ok(os::if_exists(std::fs::read_to_string(size))?.is_some_and(|sectors| sectors.trim() == "0"));
        bounded::reading("reading the size of", &place, read).await
    }

    /// Opens a disk exclusively for a moment, and flushes it like [`Mounter::flush`]. Fails while one of its file
    /// systems is mounted in any mount namespace, or another process or device has claimed it for longer than a moment.
    pub async fn try_exclusive_open(&self, number: DeviceNumber) -> io::Result<Hold> {
        let place = self.config.sys.join("dev/block").join(number.to_string());
        let deadline = Instant::now() + RELEASE_TIMEOUT;
        loop {
            let of = Arc::clone(&self.config);
            let open = move || open_exclusively(&of, number);
            match bounded::reading("opening exclusively", &place, open).await? {
                Opened::Exclusively(disk) => {
                    self.flush_held(number, Some(disk)).await?;
                    return Ok(Hold::Free);
                }
                Opened::Nothing => return Ok(Hold::Free),
                Opened::Missing if !self.exists(number).await? => {
                    self.failed_flushes.forget(number);
                    return Ok(Hold::Gone);
                }
                Opened::Missing => {
                    return Err(io::Error::other(format!("device {number} is listed in sysfs but has no device node")));
                }
                Opened::Held if Instant::now() < deadline => tokio::time::sleep(RELEASE_POLL).await,
                Opened::Held => break,
            }
        }
        let config = Arc::clone(&self.config);
        let find = move || Ok::<_, io::Error>(holders(&config, &numbers_of(&config, number)?));
        // The names of the holders only make the message more precise, so a failure to find them is ignored.
        let holders = bounded::reading("finding the users of", &PathBuf::from(format!("device {number}")), find).await;
        Ok(Hold::Held(holders.unwrap_or_default()))
    }
}

/// Returns the block devices that a mount may bind. The first is the node visible at the mount's path. The second, for
/// a bind from the kernel's device directory, is the node that the bind names, in case another mount hides the first
/// node.
fn bound_devices(config: &MounterConfig, entry: &MountEntry) -> [Option<DeviceNumber>; 2] {
    if entry.root == Path::new("/") || !LOCAL.contains(&entry.fs_type.as_str()) {
        return [None, None];
    }
    let at = |path: &Path| os::block_device_number(&std::fs::symlink_metadata(path).ok()?);
    let by_name = || at(&config.dev.join(entry.root.strip_prefix("/").ok()?));
    [at(&entry.target), if entry.fs_type == "devtmpfs" { by_name() } else { None }]
}

enum Opened {
    Exclusively(File),
    /// The device node exists, but no device belongs to it.
    Nothing,
    Held,
    Missing,
}

fn open_exclusively(config: &MounterConfig, number: DeviceNumber) -> io::Result<Opened> {
    let Some(disk) = disk_directory(config, number)? else { return Ok(Opened::Missing) };
    let node = config.dev.join(disk.file_name().unwrap_or_default());
    match File::options().read(true).custom_flags(libc::O_EXCL | libc::O_NONBLOCK | libc::O_CLOEXEC).open(&node) {
        Ok(opened) if os::block_device_number(&opened.metadata()?) == number_in(&disk) => {
            Ok(Opened::Exclusively(opened))
        }
        Ok(_) => {
            Err(io::Error::other(format!("the device number of {} differs from the one in sysfs", node.display())))
        }
        Err(error) => match error.raw_os_error() {
            Some(libc::EBUSY) => Ok(Opened::Held),
            Some(libc::ENXIO | libc::ENODEV) => Ok(Opened::Nothing),
            _ => Err(error),
        },
    }
}

const NAMED: usize = 4;
const MAKERS: [Program; 2] = [Program::Mke2fs, Program::MkfsXfs];

fn holders(config: &MounterConfig, numbers: &[DeviceNumber]) -> Vec<String> {
    let mut found = numbers.first().and_then(|number| stacked(config, *number).ok()).unwrap_or_default();
    found.extend(in_other_namespaces(numbers));
    found.extend(with_files(numbers));
    if found.is_empty() {
        found.extend(with_descriptors(numbers));
    }
    found.truncate(NAMED);
    found
}

fn stacked(config: &MounterConfig, number: DeviceNumber) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for part in parts_of(config, number)? {
        for entry in fs::read_dir(part.join("holders")).into_iter().flatten().flatten() {
            found.push(format!("device {}, which is built on it", entry.file_name().display()));
        }
    }
    Ok(found)
}

/// Returns one process for each mount namespace in which a file system of the disk is mounted.
fn in_other_namespaces(numbers: &[DeviceNumber]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for process in processes() {
        let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else { continue };
        if !seen.insert(namespace) || found.len() >= NAMED {
            continue;
        }
        let Ok(text) = fs::read(process.join("mountinfo")) else { continue };
        let table = MountTable::parse(&text);
        let entry = table.entries().iter().find(|entry| numbers.contains(&entry.device));
        if let Some(entry) = entry {
            let at = entry.target.display();
            found.push(format!("{}, which has it mounted at {at} in its mount namespace", name(&process)));
        }
    }
    found
}

/// Returns the processes that have a file open on a mount of the disk whose mount point was removed.
fn with_files(numbers: &[DeviceNumber]) -> Vec<String> {
    let has_file = |process: &PathBuf| {
        let Ok(text) = fs::read(process.join("mountinfo")) else { return false };
        let mounts: BTreeSet<u64> = MountTable::parse(&text).entries().iter().map(|entry| entry.id).collect();
        descriptors(process).into_iter().any(|descriptor| {
            let is_gone = mount_of(process, &descriptor).is_some_and(|mount| !mounts.contains(&mount));
            is_gone && device_of(&descriptor).is_some_and(|number| numbers.contains(&number))
        })
    };
    let found = processes().into_iter().filter(has_file).take(NAMED);
    found.map(|process| format!("{}, which has a file open on it", name(&process))).collect()
}

fn mount_of(process: &Path, descriptor: &Path) -> Option<u64> {
    let text = fs::read_to_string(process.join("fdinfo").join(descriptor.file_name()?)).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// Returns the device of an open file's file system. Sends no request to a file server, which may hang.
fn device_of(descriptor: &Path) -> Option<DeviceNumber> {
    let found = rustix::fs::statx(CWD, descriptor, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    Some(DeviceNumber { major: found.stx_dev_major, minor: found.stx_dev_minor })
}

fn with_descriptors(numbers: &[DeviceNumber]) -> Vec<String> {
    let found = processes().into_iter().filter(|process| has_open(process, numbers)).take(NAMED);
    found.map(|process| format!("{}, which has it open", name(&process))).collect()
}

fn has_open(process: &Path, numbers: &[DeviceNumber]) -> bool {
    let mut leads = descriptors(process).into_iter().filter_map(|descriptor| {
        // Follow only names of devices: access to another file could hang.
        let to = fs::read_link(&descriptor).ok()?;
        to.starts_with("/dev").then(|| os::block_device_number(&fs::metadata(descriptor).ok()?))?
    });
    leads.any(|number| numbers.contains(&number))
}

/// True if a visible mkfs process has the disk or one of its partitions open.
pub(crate) fn is_being_made(config: &MounterConfig, number: DeviceNumber) -> bool {
    let Ok(numbers) = numbers_of(config, number) else { return false };
    let makes = |process: &PathBuf| {
        let command = fs::read_to_string(process.join("comm")).unwrap_or_default();
        MAKERS.iter().any(|maker| maker.name() == command.trim())
    };
    processes().into_iter().filter(makes).any(|process| has_open(&process, &numbers))
}

fn descriptors(process: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn processes() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |entry: &fs::DirEntry| entry.file_name().as_bytes().iter().all(u8::is_ascii_digit);
    entries.filter(is_process).map(|entry| entry.path()).collect()
}

fn name(process: &Path) -> String {
    let id = process.file_name().unwrap_or_default().display().to_string();
    let command = fs::read_to_string(process.join("comm")).unwrap_or_default();
    format!("process {id} ({})", command.trim())
}

#[cfg(test)]
mod tests;

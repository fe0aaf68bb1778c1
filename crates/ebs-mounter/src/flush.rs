//! Writes the kernel's cached data to a disk before the disk is detached.
//!
//! The kernel flushes a block device only when it is closed for the last time. If another process has it open, data
//! that a pod has not synced would be lost with the detachment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use crate::bounded;
use crate::config::MounterConfig;
use crate::device::open_node;
use crate::device_number::DeviceNumber;
use crate::disk_parts::{DiskIdentity, number_in, parts_of};
use crate::mounter::Mounter;
use crate::os;

/// A device whose flush failed.
#[derive(Debug, thiserror::Error)]
#[error("flush {}: data that was written to it and not synced is lost; a retry of this call releases it", device.display())]
struct FlushError {
    device: PathBuf,
    source: io::Error,
}

impl Mounter {
    /// Writes the cached data of a disk and its partitions, given the number of any of them. Waits without a limit.
    ///
    /// The kernel drops data that it could not write, so repeated errors would protect nothing. A disk whose flush
    /// fails twice in a row is released with a log message.
    ///
    /// Cancellation: the flush continues.
    ///
    /// # Errors
    /// The error of the kernel, the first time, and unreadable sysfs.
    pub async fn flush(&self, number: DeviceNumber) -> io::Result<()> {
        self.flush_held(number, None).await
    }

    /// As [`Mounter::flush`], through the held descriptor of the whole disk.
    pub(crate) async fn flush_held(&self, number: DeviceNumber, held: Option<File>) -> io::Result<()> {
        let config = self.config.clone();
        let place = self.config.sys.join("dev/block").join(number.to_string());
        let flush = move || {
            let disk = DiskIdentity::of(&config, number);
            (disk, flush_all(&config, number, held.as_ref()))
        };
        let (disk, outcome) = bounded::changing("flushing", &place, flush).await;
        let has_failed_before = match &outcome {
            Ok(()) => {
                self.forget_failed_flush(number);
                false
            }
            Err(_) => self.failed_flushes().insert(number, disk.clone()) == Some(disk),
        };
        match outcome {
            Err(error) if has_failed_before => {
                self.forget_failed_flush(number);
                tracing::error!(%number, %error, "flushing the disk failed, releasing it: unwritten data is lost");
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Forgets that the last flush of a disk failed. The disk no longer exists, and the kernel may reuse its number for
    /// another one.
    pub(crate) fn forget_failed_flush(&self, number: DeviceNumber) {
        self.failed_flushes().remove(&number);
    }

    fn failed_flushes(&self) -> MutexGuard<'_, BTreeMap<DeviceNumber, DiskIdentity>> {
        self.failed_flushes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Flushes all parts even if one fails, and returns the first error.
fn flush_all(config: &MounterConfig, number: DeviceNumber, held: Option<&File>) -> io::Result<()> {
    let mut first = Ok(());
    let parts = parts_of(config, number)?;
    for (index, part) in parts.iter().enumerate() {
        let node = config.dev.join(part.file_name().unwrap_or_default());
        let flushed = match held {
            // The first is the whole disk.
            Some(disk) if index == 0 => disk.sync_all(),
            _ => flush_node(&node, part),
        };
        first = first.and(flushed.map_err(|source| io::Error::other(FlushError { device: node, source })));
    }
    first
}

/// Opens a device node and flushes it. A node without a device has nothing to flush.
fn flush_node(node: &Path, part: &Path) -> io::Result<()> {
    let Some(file) = open_node(node)? else { return Ok(()) };
    if os::block_device_number(&file.metadata()?) != number_in(part) {
        return Err(io::Error::other("it is not the device with this name in sysfs"));
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NUMBER: &str = "259:7";

    /// Adds a disk to sysfs whose node is not a device, so that each flush fails.
    fn appears(place: &Path, diskseq: Option<&str>) {
        let disk = place.join("sys/devices/nvme9n1");
        fs::create_dir_all(&disk).unwrap();
        fs::write(disk.join("dev"), NUMBER).unwrap();
        if let Some(diskseq) = diskseq {
            fs::write(disk.join("diskseq"), diskseq).unwrap();
        }
        std::os::unix::fs::symlink(&disk, place.join("sys/dev/block").join(NUMBER)).unwrap();
    }

    fn vanishes(place: &Path) {
        fs::remove_dir_all(place.join("sys/devices/nvme9n1")).unwrap();
        fs::remove_file(place.join("sys/dev/block").join(NUMBER)).unwrap();
    }

    fn mounter(place: &Path) -> Mounter {
        // The last one is another disk, since an empty list would mean that sysfs is missing.
        for directory in ["sys/block", "dev", "sys/dev/block/259:0"] {
            fs::create_dir_all(place.join(directory)).unwrap();
        }
        fs::write(place.join("dev/nvme9n1"), "no device").unwrap();
        let (sys, dev) = (place.join("sys"), place.join("dev"));
        Mounter::new(MounterConfig { sys, dev, ..MounterConfig::new(place.join("state")) }).unwrap()
    }

    #[tokio::test]
    async fn failed_flush_counts_only_for_its_own_disk() {
        let place = tempfile::tempdir().unwrap();
        let (mounter, number) = (mounter(place.path()), DeviceNumber::parse(NUMBER).unwrap());
        appears(place.path(), Some("1"));
        mounter.flush(number).await.unwrap_err();
        vanishes(place.path());
        appears(place.path(), Some("2"));
        mounter.flush(number).await.expect_err("first failure of this disk");
        mounter.flush(number).await.expect("second failure of this disk");
        mounter.flush(number).await.expect_err("the count starts again");
    }

    /// Before Linux 5.15 disks have no sequence number.
    #[tokio::test]
    async fn failed_flush_is_forgotten_when_its_disk_vanishes() {
        let place = tempfile::tempdir().unwrap();
        let (mounter, number) = (mounter(place.path()), DeviceNumber::parse(NUMBER).unwrap());
        appears(place.path(), None);
        mounter.flush(number).await.unwrap_err();
        vanishes(place.path());
        assert!(matches!(mounter.hold_of(number).await, Ok(crate::Hold::Gone)));
        appears(place.path(), None);
        mounter.flush(number).await.expect_err("first failure of this disk");
    }
}

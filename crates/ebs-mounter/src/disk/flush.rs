//! Writes the kernel's cached data to a disk before the disk is detached. The kernel does so only when the last
//! descriptor is closed: while another process has one, a detachment would lose data that a pod has not synced.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bounded;
use crate::config::MounterConfig;
use crate::device::open_node;
use crate::disk_parts::{DiskIdentity, number_in, parts_of};
use crate::mounter::Mounter;
use crate::os::{self, DeviceNumber};

#[derive(Debug, thiserror::Error)]
#[error("flush {}: data that was written to it and not synced is lost; a retry of this call releases the disk", device.display())]
struct FlushError {
    device: PathBuf,
    source: io::Error,
}

impl Mounter {
    /// Writes the cached data of a disk and its partitions, without a time limit, even if the future is dropped. If the
    /// flush of a disk fails twice in a row, logs this and returns success: the kernel drops data that it could not
    /// write.
    pub async fn flush(&self, number: DeviceNumber) -> io::Result<()> {
        self.flush_held(number, None).await
    }

    /// Flushes like [`Mounter::flush`], but through the held descriptor of the whole disk.
    pub(super) async fn flush_held(&self, number: DeviceNumber, held: Option<File>) -> io::Result<()> {
        let place = self.config.sys.join("dev/block").join(number.to_string());
        let config = Arc::clone(&self.config);
        let flush = move || {
            let disk = DiskIdentity::of(&config, number);
            (disk, flush_all(&config, number, held.as_ref()))
        };
        let (disk, outcome) = bounded::changing("flushing", &place, flush).await;
        if let Err(error) = outcome {
            if self.failed_flushes.disks().insert(number, disk.clone()) != Some(disk) {
                return Err(error);
            }
            tracing::error!(%number, %error, "second flush of the disk failed, releasing the disk: unwritten data is lost");
        }
        self.failed_flushes.forget(number);
        Ok(())
    }
}

fn flush_all(config: &MounterConfig, number: DeviceNumber, held: Option<&File>) -> io::Result<()> {
    let mut first = Ok(());
    let parts = parts_of(config, number)?;
    for (index, part) in parts.iter().enumerate() {
        let node = config.dev.join(part.file_name().unwrap_or_default());
        let flushed = match held {
            // The first part is the whole disk: use the held descriptor.
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
        return Err(io::Error::other("its device number differs from the one in sysfs"));
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fake::Machine;
    use crate::disk::users::Hold;

    const NUMBER: DeviceNumber = DeviceNumber { major: 259, minor: 7 };

    /// Adds a disk whose node is not a device, so that every flush fails.
    fn appears(machine: &Machine, diskseq: Option<&str>) {
        let disk = machine.list("nvme9n1", NUMBER);
        std::fs::write(machine.root.join("dev/nvme9n1"), "no device").unwrap();
        if let Some(diskseq) = diskseq {
            std::fs::write(disk.join("diskseq"), diskseq).unwrap();
        }
    }

    fn vanishes(machine: &Machine) {
        std::fs::remove_dir_all(machine.root.join("sys/devices/nvme9n1")).unwrap();
        std::fs::remove_file(machine.entry(NUMBER)).unwrap();
    }

    #[tokio::test]
    async fn failed_flush_is_remembered_only_for_its_own_disk() {
        let machine = Machine::new();
        let mounter = Mounter::new(machine.config()).unwrap();
        appears(&machine, Some("1"));
        mounter.flush(NUMBER).await.unwrap_err();
        vanishes(&machine);
        appears(&machine, Some("2"));
        mounter.flush(NUMBER).await.expect_err("first failure of this disk");
        mounter.flush(NUMBER).await.expect("second failure of this disk");
        mounter.flush(NUMBER).await.expect_err("the count starts again");
    }

    /// Also covers disks without a sequence number, as before Linux 5.15.
    #[tokio::test]
    async fn failed_flush_is_forgotten_when_its_disk_vanishes() {
        let machine = Machine::new();
        let mounter = Mounter::new(machine.config()).unwrap();
        appears(&machine, None);
        mounter.flush(NUMBER).await.unwrap_err();
        vanishes(&machine);
        assert!(matches!(mounter.try_exclusive_open(NUMBER).await, Ok(Hold::Gone)));
        appears(&machine, None);
        mounter.flush(NUMBER).await.expect_err("first failure of this disk");
    }
}

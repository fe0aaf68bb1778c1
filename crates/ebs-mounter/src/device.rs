//! Finds the device of a volume by the identity that the device reports, and holds the device open.

mod arrivals;
#[cfg(test)]
pub(crate) mod fake;
mod find;
mod identity;
mod in_use;
mod late_size;
mod vanished;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::{Bytes, VolumeId};

use crate::bounded::{self, Stuck};
use crate::config::MounterConfig;
use crate::mounter::Mounter;
use crate::os::{self, DeviceNumber};
use crate::partition::Partition;

pub(crate) use find::{open_node, volumes_here};
pub(crate) use identity::attribute;
pub use identity::{Identity, IdentityError};
pub(crate) use in_use::{Places, UsedDisk, disks_in_use, open_volume};
pub use vanished::NoSysfs;
pub(crate) use vanished::listed;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceQuery {
    pub volume: VolumeId,
    /// The device name from EC2 (`/dev/xvdaa`): the volume's identity on Xen, elsewhere the first path to search.
    pub hint: Option<PathBuf>,
    /// A partition of the volume instead of the whole disk.
    pub partition: Option<Partition>,
}

/// A device that is proven to be the volume, held open for reading.
#[derive(Debug, Clone)]
pub struct Device {
    volume: VolumeId,
    path: PathBuf,
    number: DeviceNumber,
    disk: DeviceNumber,
    file: Held,
}

/// The held descriptor of a disk. No async thread closes it, because the last close waits for a flush.
#[derive(Debug, Clone)]
struct Held(Option<Arc<File>>);

impl Held {
    fn new(file: File) -> Self {
        Self(Some(Arc::new(file)))
    }

    fn file(&self) -> &Arc<File> {
        self.0.as_ref().expect("only the drop takes it")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let file = self.0.take();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn_blocking(move || drop(file)));
        }
    }
}

impl Device {
    /// Returns the volume of the device.
    pub fn volume(&self) -> &VolumeId {
        &self.volume
    }

    /// Returns the device's path below `/dev`, with symlinks resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the device number, which the mount table shows for mounts of the device.
    pub fn number(&self) -> DeviceNumber {
        self.number
    }

    /// Returns true if the device is a partition of the volume.
    pub fn is_partition(&self) -> bool {
        self.number != self.disk
    }

    pub(crate) fn file(&self) -> &Arc<File> {
        self.file.file()
    }

    /// Returns the device's current size, which follows the volume's size.
    pub async fn size(&self) -> io::Result<Bytes> {
        let file = Arc::clone(self.file());
        bounded::reading("reading the size of", &self.path, move || os::block_size(&file).map(Bytes)).await
    }

    /// Returns true if the disk itself rejects writes.
    pub async fn is_read_only(&self) -> io::Result<bool> {
        let file = Arc::clone(self.file());
        bounded::reading("checking write access to", &self.path, move || os::is_block_read_only(&file)).await
    }
}

/// Why no device is available.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("find volume {volume}: no disk of this machine has its serial number; {looked}")]
    Missing { volume: VolumeId, looked: String },
    /// The device that has the volume's device name is another disk. The driver did not read or write it.
    #[error("{} has the device name of volume {volume}, but is {found}; the driver neither read nor wrote it", path.display())]
    Foreign { volume: VolumeId, path: PathBuf, found: String },
    /// The device with the volume's name cannot be identified or used.
    #[error("identify {}, which has the device name of volume {volume}", path.display())]
    Unusable { volume: VolumeId, path: PathBuf, source: IdentityError },
    #[error("{} of volume {volume} has no partition {partition}", disk.display())]
    NoPartition { volume: VolumeId, disk: PathBuf, partition: Partition },
    /// The device belonged to the volume when the driver found it, but no longer does.
    #[error("{} is no longer volume {volume}: {change}", path.display())]
    Changed { volume: VolumeId, path: PathBuf, change: String },
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

impl Mounter {
    /// Finds the device of a volume, and waits for a device that appears late. Skips a device with the right name and
    /// the wrong identity; if there is no other device, the error names the skipped one. Never writes to a device.
    pub async fn find(&self, query: &DeviceQuery) -> Result<Device, DeviceError> {
        find::find(&self.config, query).await
    }

    /// Finds the device of a volume like [`Mounter::find`], but does not wait for a late device.
    pub async fn find_now(&self, query: &DeviceQuery) -> Result<Device, DeviceError> {
        let config = MounterConfig { late_device: Duration::ZERO, ..(*self.config).clone() };
        find::find(&Arc::new(config), query).await
    }

    /// Opens the device that has a mount's number, if the device is the volume or a partition of the volume.
    pub async fn open_mounted(&self, volume: &VolumeId, number: DeviceNumber) -> Result<Device, DeviceError> {
        let place = identity::place(&self.config, number);
        let (config, volume) = (Arc::clone(&self.config), volume.clone());
        bounded::reading("opening", &place, move || find::open_number(&config, &volume, number)).await
    }

    /// Returns the identity of the disk behind a device number. `None` proves that the device has vanished.
    pub async fn identify(&self, number: DeviceNumber) -> Result<Option<Identity>, IdentityError> {
        let (config, place) = (Arc::clone(&self.config), identity::place(&self.config, number));
        bounded::reading("identifying", &place, move || identity::of_number(&config, number)).await
    }

    /// True if a block device with this number exists. False proves that it has vanished. A number with major 0 does not
    /// belong to a device and never vanishes. A sysfs without block devices is an error.
    pub async fn exists(&self, number: DeviceNumber) -> io::Result<bool> {
        if number.major == 0 {
            return Ok(true);
        }
        let (config, place) = (Arc::clone(&self.config), identity::place(&self.config, number));
        bounded::reading("checking for", &place, move || Ok(!vanished::has_vanished(&config, number)?)).await
    }

    /// Returns the numbers of the partitions that the kernel lists for a disk.
    pub async fn partitions(&self, device: &Device) -> io::Result<Vec<u8>> {
        if device.is_partition() {
            return Ok(Vec::new());
        }
        let (config, disk) = (Arc::clone(&self.config), device.clone());
        let list = move || Ok(find::partition_nodes(&config, &disk)?.into_keys().collect());
        bounded::reading("listing the partitions of", device.path(), list).await
    }

    /// Returns the kernel's sequence number of the disk, unique per boot. `None` if the kernel does not provide it.
    pub(crate) async fn diskseq(&self, device: &Device) -> io::Result<Option<u64>> {
        let place = identity::place(&self.config, device.disk);
        let at = place.join("diskseq");
        let text = bounded::reading("reading the sequence number of", &place, move || identity::attribute(&at)).await?;
        let invalid = |text| io::Error::other(format!("the disk has the invalid sequence number {text:?}"));
        text.map(|text| text.parse().map_err(|_| invalid(text))).transpose()
    }

    /// Returns the number of the whole disk to which the device with this number belongs.
    pub async fn disk_of(&self, number: DeviceNumber) -> io::Result<Option<DeviceNumber>> {
        let (config, place) = (Arc::clone(&self.config), identity::place(&self.config, number));
        bounded::reading("checking for", &place, move || find::disk_number(&config, number)).await
    }

    /// Reads the identity of a held device again, and checks that the device's name still leads to the device.
    pub(crate) async fn reconfirm(&self, device: &Device) -> Result<(), DeviceError> {
        let (config, held) = (Arc::clone(&self.config), device.clone());
        bounded::reading("identifying", device.path(), move || find::reconfirm(&config, &held)).await
    }
}

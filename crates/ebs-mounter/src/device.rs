//! The one device that is a volume: found by what it says of itself, held open from then on.

mod arrivals;
mod find;
mod identity;
mod in_use;
mod late_size;
mod multipath;
mod vanished;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebs_types::{Bytes, VolumeId};

use crate::bounded::{self, Stuck};
use crate::device_number::DeviceNumber;
use crate::mounter::Mounter;
use crate::os;
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
    /// The name that EC2 attached it under (`/dev/xvdaa`): on Xen the identity, elsewhere a place to look first.
    pub hint: Option<PathBuf>,
    /// A partition of it instead of the whole disk.
    pub partition: Option<Partition>,
}

/// A device that was proven to be a volume, held open for reading.
#[derive(Debug, Clone)]
pub struct Device {
    volume: VolumeId,
    path: PathBuf,
    number: DeviceNumber,
    disk: DeviceNumber,
    file: Held,
}

/// A descriptor of a disk. The close of the last one that a disk has waits until the kernel has written out what it keeps of
/// it, and a disk may hang: so it is never closed on an async thread.
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
    /// The volume that it is.
    pub fn volume(&self) -> &VolumeId {
        &self.volume
    }

    /// Its name below `/dev`, symlinks resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its number; a mount of it has the same.
    pub fn number(&self) -> DeviceNumber {
        self.number
    }

    /// True when it is a partition of the volume.
    pub fn is_partition(&self) -> bool {
        self.number != self.disk
    }

    /// The descriptor that is held since the identity check.
    pub(crate) fn file(&self) -> &Arc<File> {
        self.file.file()
    }

    /// Its size now, which follows the volume's.
    ///
    /// # Errors
    /// What the kernel says, for instance that the disk is gone.
    pub async fn size(&self) -> io::Result<Bytes> {
        let file = Arc::clone(self.file());
        bounded::reading("asking for the size", &self.path, move || os::block_size(&file).map(Bytes)).await
    }

    /// True when the disk itself refuses writes.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn is_read_only(&self) -> io::Result<bool> {
        let file = Arc::clone(self.file());
        bounded::reading("asking for write access", &self.path, move || os::is_block_read_only(&file)).await
    }
}

/// Why there is no device to work on.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Nothing on this machine is the volume.
    #[error("no disk of this machine is volume {volume}; {looked}")]
    Missing { volume: VolumeId, looked: String },
    /// What stands under the volume's name is something else. It was not touched.
    #[error("{} has the device name of volume {volume}, but is {found}: nothing was read from or written to it", path.display())]
    Foreign {
        volume: VolumeId,
        path: PathBuf,
        /// What the device says it is.
        found: String,
    },
    /// What stands under the volume's name cannot be identified or used.
    #[error("{} has the device name of volume {volume}, but cannot be examined", path.display())]
    Unusable { volume: VolumeId, path: PathBuf, source: IdentityError },
    /// The disk is there, the partition is not.
    #[error("{} of volume {volume} has no partition {partition}", disk.display())]
    NoPartition { volume: VolumeId, disk: PathBuf, partition: Partition },
    /// It was the volume when it was found and is not any more.
    #[error("{} was volume {volume} a moment ago and is not any more: {change}", path.display())]
    Changed { volume: VolumeId, path: PathBuf, change: String },
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

impl Mounter {
    /// Finds the device of a volume. A device that EC2 reports attached may come late: the search repeats for as long
    /// as the configuration says. What carries the right name and the wrong identity is passed over; when
    /// nothing better is found, it is the error.
    ///
    /// # Errors
    /// [`DeviceError`]. Nothing is ever written.
    pub async fn find(&self, query: &DeviceQuery) -> Result<Device, DeviceError> {
        find::find(&self.config, query).await
    }

    /// Reads the identity of a held device once more and checks that its name still leads to it.
    ///
    /// # Errors
    /// [`DeviceError::Changed`], [`DeviceError::Unusable`], [`DeviceError::Stuck`].
    pub(crate) async fn reconfirm(&self, device: &Device) -> Result<(), DeviceError> {
        let (config, held) = (Arc::clone(&self.config), device.clone());
        bounded::reading("identifying", device.path(), move || find::reconfirm(&config, &held)).await
    }

    /// What the disk behind a device number says it is; a partition is its disk. `None` is proof that no such device
    /// exists any more: it vanished.
    ///
    /// # Errors
    /// [`IdentityError`], also where sysfs cannot tell.
    pub async fn identify(&self, number: DeviceNumber) -> Result<Option<Identity>, IdentityError> {
        let config = Arc::clone(&self.config);
        let place = identity::place(&self.config, number);
        bounded::reading("identifying", &place, move || identity::of_number(&config, number)).await
    }

    /// True when a block device of this number exists; false is proof that it vanished. A number with major 0 belongs to
    /// no device and never vanishes.
    ///
    /// # Errors
    /// What the kernel says; a sysfs without block devices proves nothing and is an error.
    pub async fn exists(&self, number: DeviceNumber) -> io::Result<bool> {
        if number.major == 0 {
            return Ok(true);
        }
        let (config, place) = (Arc::clone(&self.config), identity::place(&self.config, number));
        bounded::reading("looking for", &place, move || Ok(!vanished::has_vanished(&config, number)?)).await
    }
}

impl Mounter {
    /// Opens the device of a mount, whose number the mount table tells, when it is the volume or a partition of it.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub async fn open_mounted(&self, volume: &VolumeId, number: DeviceNumber) -> Result<Device, DeviceError> {
        let (config, volume) = (Arc::clone(&self.config), volume.clone());
        let place = identity::place(&self.config, number);
        bounded::reading("opening", &place, move || find::open_number(&config, &volume, number)).await
    }

    /// The numbers of the partitions that the kernel knows on a disk; none when the device is itself a partition.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn partitions(&self, device: &Device) -> io::Result<Vec<u8>> {
        if device.is_partition() {
            return Ok(Vec::new());
        }
        let (config, disk) = (Arc::clone(&self.config), device.clone());
        let list = move || Ok(find::partition_nodes(&config, &disk)?.into_keys().collect());
        bounded::reading("looking for partitions of", device.path(), list).await
    }

    /// The number that this run of the kernel gave the disk of a device when it appeared; `None` where the kernel gives none.
    pub(crate) async fn diskseq(&self, device: &Device) -> io::Result<Option<u64>> {
        let place = identity::place(&self.config, device.disk);
        let at = place.join("diskseq");
        let text = bounded::reading("asking for the sequence number", &place, move || identity::attribute(&at)).await?;
        text.map(|text| text.parse().map_err(|_| io::Error::other(format!("sequence number {text:?} of a disk"))))
            .transpose()
    }

    /// The number of the whole disk that a number belongs to; `None` when there is none any more.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn disk_of(&self, number: DeviceNumber) -> io::Result<Option<DeviceNumber>> {
        let config = Arc::clone(&self.config);
        let place = identity::place(&self.config, number);
        bounded::reading("looking for", &place, move || find::disk_number(&config, number)).await
    }
}

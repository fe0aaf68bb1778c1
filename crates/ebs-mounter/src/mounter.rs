//! The entry point of the crate. Operations on which none of its parts depends are in modules of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::{Bytes, VolumeId};

use crate::config::MounterConfig;
use crate::device::{self, Device, DeviceError, DeviceQuery, Identity, IdentityError, NoSysfs};
use crate::device_number::DeviceNumber;
use crate::disk::flush::{self, FailedFlushes};
use crate::disk::users::{self, DiskMounts, Hold};
use crate::format::record::{FormatPermit, FormatRecord, RecordError};
use crate::format::{FormatError, FormatSpec, Formatter};
use crate::fs_type::FsType;
use crate::mount::unmount::{self, UnmountError, Unmounted};
use crate::mount::{self, MountError, MountSource, Mounts, thaw, thaw_unmounted};
use crate::mountinfo::MountEntry;
use crate::options::{Attribute, MountOptions};
use crate::partition::Partition;
use crate::path::NodePath;
use crate::probe::{self, Contents, ProbeError};
use crate::register::{Attacher, Register, RegisteredVolume};
use crate::state_directory;
use crate::tools::Tools;

/// Why a mounter cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum MounterError {
    #[error("missing programs: {}; install e2fsprogs, xfsprogs and util-linux", .0.join(", "))]
    MissingTools(Vec<&'static str>),
    #[error(transparent)]
    NoSysfs(#[from] NoSysfs),
}

/// Disks and mounts of this node. Clones share all state.
#[derive(Debug, Clone)]
pub struct Mounter {
    pub(crate) config: Arc<MounterConfig>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) register: Arc<Register>,
    formatter: Arc<Formatter>,
    mounts: Arc<Mounts>,
    failed_flushes: Arc<FailedFlushes>,
}

impl Mounter {
    /// Checks that the tools are installed and that sysfs lists block devices, and reads the register in the state
    /// directory. Problems with the state directory are only logged. Logs a warning about simulated disks.
    ///
    /// Blocks for at most 20 s while the state directory is read.
    pub fn new(config: MounterConfig) -> Result<Self, MounterError> {
        device::listed(&config.sys)?;
        let tools = Tools::find(config.sys.join("fs/cgroup"));
        let missing = tools.missing();
        if !missing.is_empty() {
            return Err(MounterError::MissingTools(missing));
        }
        if let Some(directory) = &config.simulated_devices {
            let directory = directory.display();
            tracing::warn!(%directory, "treating loop devices on files in this directory as EBS volumes");
        }
        let (config, tools) = (Arc::new(config), Arc::new(tools));
        let register = Arc::new(Register::new(&config));
        state_directory::prepare(&config, &register);
        let formatter = Arc::new(Formatter::new(Arc::clone(&config), Arc::clone(&tools)));
        let mounts = Arc::new(Mounts::new(Arc::clone(&config)));
        Ok(Self { config, tools, register, formatter, mounts, failed_flushes: Arc::default() })
    }
}

/// Devices.
impl Mounter {
    /// Finds the device of a volume, and waits for a device that appears late.
    pub async fn find(&self, query: &DeviceQuery) -> Result<Device, DeviceError> {
        device::find(&self.config, query).await
    }

    /// Finds the device of a volume like [`Mounter::find`], but does not wait for a late device.
    pub async fn find_now(&self, query: &DeviceQuery) -> Result<Device, DeviceError> {
        device::find_now(&self.config, query).await
    }

    /// Opens the device of a mount by its number, if it is the volume or a partition of it.
    pub async fn open_mounted(&self, volume: &VolumeId, number: DeviceNumber) -> Result<Device, DeviceError> {
        device::open_mounted(&self.config, volume, number).await
    }

    /// Returns the identity of the disk behind a device number. `None` proves that the device has vanished.
    pub async fn identify(&self, number: DeviceNumber) -> Result<Option<Identity>, IdentityError> {
        device::identify(&self.config, number).await
    }

    /// True if a block device with this number exists. False proves that it has vanished.
    pub async fn exists(&self, number: DeviceNumber) -> io::Result<bool> {
        device::exists(&self.config, number).await
    }

    /// True if disks without an identity can be volumes, because the device name from EC2 identifies them (Xen).
    pub fn trusts_silent_disks(&self) -> bool {
        self.config.xen
    }

    /// Returns the numbers of the partitions that the kernel lists for a disk.
    pub async fn partitions(&self, device: &Device) -> io::Result<Vec<u8>> {
        device::partitions(&self.config, device).await
    }

    /// Returns the number of the whole disk to which a number belongs.
    pub async fn disk_of(&self, number: DeviceNumber) -> io::Result<Option<DeviceNumber>> {
        device::disk_of(&self.config, number).await
    }

    /// Returns the size of a device once it is at least `least`, or its current size after a time limit.
    pub async fn size_of_at_least(&self, device: &Device, least: Bytes) -> io::Result<Bytes> {
        device::size_of_at_least(&self.config, device, least).await
    }

    /// Returns the number of the block device at a path, or `None` if it is not a block device.
    pub async fn block_device_at(&self, path: &Path) -> io::Result<Option<DeviceNumber>> {
        mount::block_device_at(path).await
    }

    /// Returns the size in bytes of the block device at a path.
    pub async fn block_device_size(&self, path: &Path) -> io::Result<u64> {
        mount::block_device_size(path).await
    }

    /// Returns the number and the size in bytes of the block device at a path, both from one descriptor.
    pub async fn sized_block_device(&self, path: &Path) -> io::Result<(DeviceNumber, u64)> {
        mount::sized_block_device(path).await
    }
}

/// Operations on the users of a disk.
impl Mounter {
    /// Returns the mounts and binds of a disk and its partitions in this mount table.
    pub async fn mounts_of_disk(&self, number: DeviceNumber) -> io::Result<DiskMounts> {
        users::mounts_of_disk(&self.config, number).await
    }

    /// True if the kernel has built another device on a disk: device mapper, md or bcache.
    pub async fn is_built_on(&self, number: DeviceNumber) -> io::Result<bool> {
        users::is_built_on(&self.config, number).await
    }

    /// True if the disk of a raw bind no longer exists.
    pub async fn is_bound_disk_gone(&self, entry: &MountEntry, number: DeviceNumber) -> io::Result<bool> {
        users::is_bound_disk_gone(&self.config, entry, number).await
    }

    /// Opens a disk exclusively for a moment and flushes it. Returns its holders if the open fails.
    pub async fn try_exclusive_open(&self, number: DeviceNumber) -> io::Result<Hold> {
        users::try_exclusive_open(&self.config, &self.failed_flushes, number).await
    }

    /// Writes the cached data of a disk and its partitions. Of several failures in a row, returns only the first as an
    /// error.
    pub async fn flush(&self, number: DeviceNumber) -> io::Result<()> {
        flush::flush(&self.config, &self.failed_flushes, number).await
    }
}

/// Operations on contents and formats.
impl Mounter {
    /// Examines the whole contents of a device.
    pub async fn probe(&self, device: &Device) -> Result<Contents, ProbeError> {
        probe::probe(&self.tools, device).await
    }

    /// Makes a file system, and keeps the record of the format after success.
    pub async fn format(
        &self,
        device: &Device,
        spec: &FormatSpec,
        record: &FormatRecord,
        permit: FormatPermit,
    ) -> Result<(), FormatError> {
        self.formatter.format(device, spec, record, permit).await
    }

    /// Returns a new record for a format of this device with this attach time, in the current boot.
    pub async fn format_record(
        &self,
        device: &Device,
        fs_type: FsType,
        partition: Option<Partition>,
        attach_time: Option<String>,
    ) -> io::Result<FormatRecord> {
        self.formatter.records.describe(device, fs_type, partition, attach_time).await
    }

    /// Returns the record of an interrupted mkfs of this device.
    pub async fn interrupted_format(&self, device: &Device) -> Option<FormatRecord> {
        self.formatter.records.interrupted(device).await
    }

    /// Removes the record of a volume. Ignores it from now on if it is unknown whether a record exists.
    pub async fn forget_format_if_known(&self, volume: &VolumeId) -> Result<(), RecordError> {
        self.formatter.records.forget_if_known(volume).await
    }

    /// Removes the record of a volume. Must succeed before another program may write to the disk.
    pub async fn forget_format(&self, volume: &VolumeId) -> Result<(), RecordError> {
        self.formatter.records.forget(volume).await
    }

    /// Removes or ignores the record of a volume that leaves this node. Never fails.
    pub async fn abandon_format(&self, volume: &VolumeId) {
        self.formatter.records.abandon(volume).await;
    }
}

/// Mounts.
impl Mounter {
    /// Mounts the file system of a device, after it has read serial number and superblock again.
    pub async fn mount(
        &self,
        device: &Device,
        target: &NodePath,
        fs_type: FsType,
        options: &MountOptions,
    ) -> Result<(), MountError> {
        self.mounts.mount(device, target, fs_type, options).await
    }

    /// Returns the options that the kernel of this machine accepts.
    pub fn effective(&self, options: &MountOptions) -> MountOptions {
        mount::effective(options)
    }

    /// Binds `source` to `target` atomically, with the attributes of its mount and the given ones.
    pub async fn bind(
        &self,
        source: &Path,
        target: &NodePath,
        attributes: &BTreeSet<Attribute>,
        shown: MountSource,
    ) -> Result<(), MountError> {
        self.mounts.bind(source, target, attributes, shown).await
    }

    /// Unmounts the visible mount at a path, which must still be the given one.
    pub async fn unmount_top(
        &self,
        path: &NodePath,
        seen: &MountEntry,
        is_gone: bool,
    ) -> Result<Unmounted, UnmountError> {
        unmount::unmount_top(&self.config, path, seen, is_gone).await
    }

    /// Thaws a file system if `entry`, at `at`, is its only mount.
    pub async fn thaw_only_mount(&self, entry: &MountEntry, at: &NodePath) -> bool {
        thaw::thaw_only_mount(entry, at).await
    }

    /// Thaws a file system that was frozen before it was mounted at `at`.
    pub async fn thaw_new_mount(&self, device: &Device, at: &NodePath) {
        thaw::thaw_new_mount(device, at).await;
    }

    /// Thaws a file system that the kernel keeps in memory without a mount. Mounts it at `place` for that.
    pub async fn thaw_unmounted(&self, number: DeviceNumber, place: &NodePath) -> io::Result<bool> {
        thaw_unmounted::thaw_unmounted(&self.config, number, place).await
    }
}

/// Operations on the register of the volumes of this node.
impl Mounter {
    /// Returns how many of the driver's volumes were attached when the machine booted.
    pub fn own_volumes_at_boot(&self) -> u32 {
        self.register.own_volumes_at_boot()
    }

    /// Registers a volume at a path and, on Xen, with the device name under which EC2 attached it.
    pub fn register(&self, volume: &VolumeId, attacher: Attacher, at: &NodePath, device: Option<&Path>) {
        self.register.add(volume, attacher, at, device);
    }

    /// Removes a path from the register, whichever volume it belongs to.
    pub fn unregister(&self, at: &NodePath) {
        self.register.remove_path(at);
    }

    /// Removes a volume that this node no longer uses from the register.
    pub fn forget_volume(&self, volume: &VolumeId) {
        self.register.remove_volume(volume);
    }

    /// Returns the device name under which EC2 attached a volume; `None` except on Xen.
    pub fn attached_under(&self, volume: &VolumeId) -> Option<PathBuf> {
        self.register.device_name(volume)
    }

    /// Returns all registered volumes.
    pub fn registered(&self) -> BTreeMap<VolumeId, RegisteredVolume> {
        self.register.volumes()
    }

    /// Waits at most `bound` until all changes of the register are written. Returns false on timeout.
    pub async fn register_written(&self, bound: Duration) -> bool {
        self.register.wait_until_written(bound).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounter_starts_without_a_state_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mounter = Mounter::new(MounterConfig::new(file.path().join("below"))).unwrap();
        assert!(mounter.registered().is_empty() && mounter.own_volumes_at_boot() == 0);
    }
}

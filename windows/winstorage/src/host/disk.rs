//! Disks, their partitions, and the volumes on them.

use super::{HostError, ObjectPath};
use crate::types::{DiskNumber, PartitionNumber, VolumeGuid};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskRow {
    /// `Path`: the device interface, such as `\\?\scsi#disk&…`.
    pub device: String,
    /// `SerialNumber`, verbatim, including spaces. It is empty if Windows reports no serial number.
    pub serial: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub object: ObjectPath,
    pub number: DiskNumber,
    pub style: PartitionStyle,
    /// `SerialNumber`, verbatim. It is empty if Windows reports no serial number.
    pub serial: String,
    pub is_offline: bool,
    pub offline_reason: Option<OfflineReason>,
    /// `IsReadOnly`: Windows does not write to the disk.
    pub is_read_only: bool,
    pub size: u64,
    pub is_boot: bool,
    pub is_system: bool,
}

impl Disk {
    /// Returns whether both rows describe the same disk. Windows reuses disk numbers.
    pub fn is_same_disk(&self, other: &Self) -> bool {
        (self.number, &self.object, &self.serial, self.size) == (other.number, &other.object, &other.serial, other.size)
    }
}

/// `MSFT_Disk.OfflineReason`, a number (Microsoft: `VDS_DISK_OFFLINE_REASON`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfflineReason(pub u32);

impl std::fmt::Display for OfflineReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self.0 {
            1 => "the SAN policy keeps new disks offline",
            2 => "it is a second path to another disk",
            3 => "it holds a shadow copy of a disk that is online",
            4 => "its signature collides with another disk's",
            5 => "resources are exhausted",
            6 => "a critical write failed",
            7 => "it requires an integrity scan",
            8 => "it has lost written data",
            _ => "the reason is unknown",
        };
        write!(f, "{text} (OfflineReason {})", self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartitionStyle {
    /// 0: the disk has no partition table.
    #[default]
    Raw,
    Mbr,
    Gpt,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub object: ObjectPath,
    pub disk: DiskNumber,
    pub number: PartitionNumber,
    pub kind: PartitionKind,
    pub size: u64,
    /// `IsOffline`: true from the creation of the partition until a call of its `Online` method.
    pub is_offline: bool,
    pub is_boot: bool,
    pub is_system: bool,
    pub drive_letter: Option<char>,
}

/// The purpose of a partition, which its type shows on a GPT disk. Every partition of an MBR disk is `Other`, because
/// it may contain data that does not belong to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartitionKind {
    /// The Microsoft Reserved partition, which Windows creates when it initialises a disk.
    Reserved,
    Data,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRow {
    pub object: ObjectPath,
    pub id: VolumeGuid,
    /// Whether `FileSystemType` is a known file system.
    pub is_formatted: bool,
    pub size: u64,
    pub remaining: u64,
    pub drive_letter: Option<char>,
}

/// Disks and partitions.
///
/// Each method fails with Windows' error. A lookup of a disk that does not exist returns `None`.
pub trait DiskHost: Send + Sync {
    fn disk_locations(&self) -> Result<Vec<(DiskNumber, String)>, HostError>;
    fn disks(&self) -> Result<Vec<DiskRow>, HostError>;
    fn disk(&self, disk: DiskNumber) -> Result<Option<Disk>, HostError>;
    fn system_disk(&self) -> Result<Option<DiskNumber>, HostError>;
    /// Rescans the machine for disks that were attached, detached or resized.
    fn rescan(&self) -> Result<(), HostError>;
    fn initialize_gpt(&self, disk: &Disk) -> Result<(), HostError>;
    /// Creates one basic-data partition in all free space, without a drive letter. Errors: the method failed, for
    /// example with [`super::result::ACCESS_PATH_IN_USE`].
    fn create_data_partition(&self, disk: &Disk) -> Result<(), HostError>;
    /// Reads the partition tables of the disk again.
    fn refresh_disk(&self, disk: &Disk) -> Result<(), HostError>;
    fn set_online(&self, disk: &Disk, online: bool) -> Result<(), HostError>;
    fn set_disk_read_only(&self, disk: &Disk, read_only: bool) -> Result<(), HostError>;
    /// Returns all partitions of the disk, including reserved ones, or only the partition with this number.
    fn partitions(&self, disk: DiskNumber, number: Option<PartitionNumber>) -> Result<Vec<Partition>, HostError>;
    fn online_partition(&self, partition: &Partition) -> Result<(), HostError>;
    /// Returns the maximum size of the partition and its file system, in bytes.
    fn largest_size(&self, partition: &Partition) -> Result<u64, HostError>;
    /// Resizes the partition and its file system to `size` bytes. Errors: the method failed, for example with
    /// [`super::result::STORAGE_BUSY`].
    fn resize_partition(&self, partition: &Partition, size: u64) -> Result<(), HostError>;
}

pub trait VolumeHost: Send + Sync {
    /// Returns the volumes on a partition. A reserved partition has no volumes.
    fn volumes_of_partition(&self, partition: &Partition) -> Result<Vec<VolumeGuid>, HostError>;
    /// Returns the partitions of a volume. A spanned volume has several.
    fn partitions_of_volume(&self, volume: &VolumeRow) -> Result<Vec<Partition>, HostError>;
    fn volume(&self, volume: &VolumeGuid) -> Result<Option<VolumeRow>, HostError>;
    /// Creates an empty NTFS file system without a label. Formats quickly and with force.
    fn format_ntfs(&self, volume: &VolumeRow) -> Result<(), HostError>;
    fn flush(&self, volume: &VolumeRow) -> Result<(), HostError>;
}

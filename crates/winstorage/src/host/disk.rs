//! Disks, their partitions, and the volumes on them.

use super::{HostError, ObjectPath};
use crate::types::{DiskNumber, PartitionNumber, VolumeGuid};

/// A row of `MSFT_Disk` where all are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskRow {
    /// `Path`: the device interface, `\\?\scsi#disk&…`.
    pub device: String,
    /// `SerialNumber`, verbatim, blanks included; empty where Windows knows none.
    pub serial: String,
}

/// What one disk says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Of its WMI object.
    pub object: ObjectPath,
    /// `Number`
    pub number: DiskNumber,
    /// Which partition table it has.
    pub style: PartitionStyle,
    /// `SerialNumber`, verbatim; empty where Windows knows none.
    pub serial: String,
    /// `IsOffline`
    pub is_offline: bool,
    /// Why it is offline, while it is.
    pub offline_reason: Option<OfflineReason>,
    /// `IsReadOnly`: Windows refuses to write to it.
    pub is_read_only: bool,
    /// Bytes.
    pub size: u64,
    /// Windows has started from it.
    pub is_boot: bool,
    /// It holds the system partition.
    pub is_system: bool,
}

impl Disk {
    /// True where both rows describe the same disk: numbers are given to other disks.
    #[must_use]
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
            4 => "its signature collides with that of another disk",
            5 => "resources are exhausted",
            6 => "critical writes to it failed",
            7 => "it needs a scan of its integrity",
            8 => "it has lost data that was written",
            _ => "the reason is unknown",
        };
        write!(f, "{text} (OfflineReason {})", self.0)
    }
}

/// `MSFT_Disk.PartitionStyle`
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartitionStyle {
    /// 0: no partition table.
    Raw,
    /// 1
    Mbr,
    /// 2
    Gpt,
}

/// A partition of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Of its WMI object.
    pub object: ObjectPath,
    /// `DiskNumber`
    pub disk: DiskNumber,
    /// `PartitionNumber`
    pub number: PartitionNumber,
    /// What it is for.
    pub kind: PartitionKind,
    /// Bytes.
    pub size: u64,
    /// `IsOffline`: between its creation and `Online`.
    pub is_offline: bool,
    /// Windows runs from it.
    pub is_boot: bool,
    /// Windows starts from it.
    pub is_system: bool,
    /// `DriveLetter`, where it has one.
    pub drive_letter: Option<char>,
}

/// What a partition is for, by its type on a GPT disk. Every partition of an MBR disk is `Other`: it is somebody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionKind {
    /// Microsoft Reserved, which Windows makes itself when it initialises a disk.
    Reserved,
    /// Basic data.
    Data,
    /// Anything else.
    Other,
}

/// A row of `MSFT_Volume`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRow {
    /// Of its WMI object.
    pub object: ObjectPath,
    /// `UniqueId`
    pub id: VolumeGuid,
    /// `FileSystemType` is one that Windows knows.
    pub is_formatted: bool,
    /// Bytes of the file system.
    pub size: u64,
    /// Bytes of it that are free.
    pub remaining: u64,
    /// `DriveLetter`, where it has one.
    pub drive_letter: Option<char>,
}

/// Disks and partitions.
///
/// Each method fails with what Windows answered; a disk that is not there is `None` where it is looked for.
pub trait DiskHost: Send + Sync {
    /// Number and `Location` of every disk.
    ///
    /// # Errors
    /// The query failed.
    fn disk_locations(&self) -> Result<Vec<(DiskNumber, String)>, HostError>;
    /// Device and serial number of every disk.
    ///
    /// # Errors
    /// The query failed.
    fn disks(&self) -> Result<Vec<DiskRow>, HostError>;
    /// The number that the device itself tells (`IOCTL_STORAGE_GET_DEVICE_NUMBER`).
    ///
    /// # Errors
    /// The device cannot be opened or asked.
    fn device_number(&self, device: &str) -> Result<DiskNumber, HostError>;
    /// The bytes of its `STORAGE_DEVICE_ID_DESCRIPTOR`, for [`crate::page83::identifier`].
    ///
    /// # Errors
    /// The device cannot be opened, or has no such property.
    fn device_ids(&self, device: &str) -> Result<Vec<u8>, HostError>;
    /// `length` bytes of the disk from `offset` on, both multiples of 4,096; fewer at its end.
    ///
    /// # Errors
    /// The disk cannot be opened or read.
    fn read_disk(&self, disk: DiskNumber, offset: u64, length: usize) -> Result<Vec<u8>, HostError>;
    /// One disk.
    ///
    /// # Errors
    /// The query failed.
    fn disk(&self, disk: DiskNumber) -> Result<Option<Disk>, HostError>;
    /// The disk that holds `%SystemRoot%`.
    ///
    /// # Errors
    /// The query failed.
    fn system_disk(&self) -> Result<Option<DiskNumber>, HostError>;
    /// Looks for disks that came, went or grew.
    ///
    /// # Errors
    /// The method failed.
    fn rescan(&self) -> Result<(), HostError>;
    /// Writes an empty GPT.
    ///
    /// # Errors
    /// The method failed.
    fn initialize_gpt(&self, disk: &Disk) -> Result<(), HostError>;
    /// Makes one basic-data partition of all free space, without a drive letter.
    ///
    /// # Errors
    /// The method failed, also with [`super::result::ACCESS_PATH_IN_USE`].
    fn create_data_partition(&self, disk: &Disk) -> Result<(), HostError>;
    /// Reads the disk's own tables again.
    ///
    /// # Errors
    /// The method failed.
    fn refresh_disk(&self, disk: &Disk) -> Result<(), HostError>;
    /// Brings the disk online or takes it offline.
    ///
    /// # Errors
    /// The method failed.
    fn set_online(&self, disk: &Disk, online: bool) -> Result<(), HostError>;
    /// Makes the disk read-only, or writable.
    ///
    /// # Errors
    /// The method failed.
    fn set_disk_read_only(&self, disk: &Disk, read_only: bool) -> Result<(), HostError>;
    /// All partitions of the disk, or the one with this number, reserved ones included.
    ///
    /// # Errors
    /// The query failed.
    fn partitions(&self, disk: DiskNumber, number: Option<PartitionNumber>) -> Result<Vec<Partition>, HostError>;
    /// Brings the partition online.
    ///
    /// # Errors
    /// The method failed.
    fn online_partition(&self, partition: &Partition) -> Result<(), HostError>;
    /// The most bytes that the partition and its file system could have.
    ///
    /// # Errors
    /// The method failed.
    fn largest_size(&self, partition: &Partition) -> Result<u64, HostError>;
    /// Resizes the partition and its file system to `size` bytes.
    ///
    /// # Errors
    /// The method failed, also with [`super::result::STORAGE_BUSY`].
    fn resize_partition(&self, partition: &Partition, size: u64) -> Result<(), HostError>;
}

/// Volumes.
pub trait VolumeHost: Send + Sync {
    /// The volumes on a partition: none on a reserved one.
    ///
    /// # Errors
    /// The query failed, or names something that is no volume.
    fn volumes_of_partition(&self, partition: &Partition) -> Result<Vec<VolumeGuid>, HostError>;
    /// The partitions that a volume lies on: several where it is spanned.
    ///
    /// # Errors
    /// The query failed.
    fn partitions_of_volume(&self, volume: &VolumeRow) -> Result<Vec<Partition>, HostError>;
    /// One volume.
    ///
    /// # Errors
    /// The query failed.
    fn volume(&self, volume: &VolumeGuid) -> Result<Option<VolumeRow>, HostError>;
    /// Makes an empty NTFS without a label: quick, and forced.
    ///
    /// # Errors
    /// The method failed.
    fn format_ntfs(&self, volume: &VolumeRow) -> Result<(), HostError>;
    /// Writes everything that the cache holds.
    ///
    /// # Errors
    /// The method failed.
    fn flush(&self, volume: &VolumeRow) -> Result<(), HostError>;
    /// The volume with a drive letter.
    ///
    /// # Errors
    /// There is none.
    fn volume_of_drive(&self, letter: char) -> Result<VolumeGuid, HostError>;
}

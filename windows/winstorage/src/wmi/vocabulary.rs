//! All queries and calls that this program sends to WMI.

use std::fmt;

use crate::host::ObjectPath;

/// Namespaces of WMI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// Disks, partitions, volumes, iSCSI.
    Storage,
    Smb,
    /// The rest.
    Cim,
}

/// Classes that are queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// `MSFT_Disk`
    Disk,
    /// `MSFT_Partition`
    Partition,
    /// `MSFT_Volume`
    Volume,
    /// `MSFT_StorageSetting`
    StorageSetting,
    /// `MSFT_SmbGlobalMapping`
    SmbGlobalMapping,
    /// `MSFT_iSCSITargetPortal`
    IscsiTargetPortal,
    /// `MSFT_iSCSITarget`
    IscsiTarget,
    /// `MSFT_iSCSISession`
    IscsiSession,
    /// `MSFT_iSCSIConnection`
    IscsiConnection,
    /// `CIM_BIOSElement`
    Bios,
    /// `Win32_Service`
    Service,
}

/// Associations between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Association {
    /// `MSFT_PartitionToVolume`
    PartitionToVolume,
    /// `MSFT_iSCSITargetToiSCSITargetPortal`
    TargetToPortal,
    /// `MSFT_iSCSITargetToiSCSISession`
    TargetToSession,
    /// `MSFT_iSCSITargetToiSCSIConnection`
    TargetToConnection,
    /// `MSFT_iSCSIConnectionToDisk`
    ConnectionToDisk,
}

/// Methods that are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    class: Class,
    /// `MSFT_Disk.Initialize`
    name: &'static str,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $constant:ident: $class:ident, $name:literal;)*) => {
        impl Call {
            $($(#[$doc])* pub const $constant: Self = Self { class: Class::$class, name: $name };)*

            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];
        }
    };
}

calls! {
    /// Writes a partition table.
    INITIALIZE: Disk, "MSFT_Disk.Initialize";
    /// Makes a partition.
    CREATE_PARTITION: Disk, "MSFT_Disk.CreatePartition";
    /// Reads the disk again.
    REFRESH_DISK: Disk, "MSFT_Disk.Refresh";
    /// Brings the disk online.
    ONLINE_DISK: Disk, "MSFT_Disk.Online";
    /// Takes the disk offline.
    OFFLINE_DISK: Disk, "MSFT_Disk.Offline";
    /// Makes the disk read-only or writable.
    SET_DISK_ATTRIBUTES: Disk, "MSFT_Disk.SetAttributes";
    ONLINE_PARTITION: Partition, "MSFT_Partition.Online";
    /// Returns the smallest and largest size.
    SUPPORTED_SIZE: Partition, "MSFT_Partition.GetSupportedSize";
    /// Resizes partition and file system.
    RESIZE: Partition, "MSFT_Partition.Resize";
    /// Makes a file system.
    FORMAT: Volume, "MSFT_Volume.Format";
    /// Writes what the cache holds.
    FLUSH: Volume, "MSFT_Volume.Flush";
    /// Rescans the disks.
    UPDATE_CACHE: StorageSetting, "MSFT_StorageSetting.UpdateHostStorageCache";
    CREATE_MAPPING: SmbGlobalMapping, "MSFT_SmbGlobalMapping.Create";
    /// Ends a mapping.
    REMOVE_MAPPING: SmbGlobalMapping, "MSFT_SmbGlobalMapping.Remove";
    /// Registers a portal.
    NEW_PORTAL: IscsiTargetPortal, "MSFT_iSCSITargetPortal.New";
    /// Unregisters a portal.
    REMOVE_PORTAL: IscsiTargetPortal, "MSFT_iSCSITargetPortal.Remove";
    CONNECT_TARGET: IscsiTarget, "MSFT_iSCSITarget.Connect";
    /// Logs out.
    DISCONNECT_TARGET: IscsiTarget, "MSFT_iSCSITarget.Disconnect";
    /// Makes a session not persistent.
    UNREGISTER_SESSION: IscsiSession, "MSFT_iSCSISession.Unregister";
    /// Sets the machine's CHAP secret.
    SET_CHAP_SECRET: IscsiSession, "MSFT_iSCSISession.SetCHAPSecret";
    START_SERVICE: Service, "Win32_Service.StartService";
    STOP_SERVICE: Service, "Win32_Service.StopService";
}

impl Namespace {
    pub fn path(self) -> &'static str {
        match self {
            Self::Storage => r"Root\Microsoft\Windows\Storage",
            Self::Smb => r"Root\Microsoft\Windows\Smb",
            Self::Cim => r"Root\CimV2",
        }
    }
}

impl Class {
    /// Returns its name in WMI.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "MSFT_Disk",
            Self::Partition => "MSFT_Partition",
            Self::Volume => "MSFT_Volume",
            Self::StorageSetting => "MSFT_StorageSetting",
            Self::SmbGlobalMapping => "MSFT_SmbGlobalMapping",
            Self::IscsiTargetPortal => "MSFT_iSCSITargetPortal",
            Self::IscsiTarget => "MSFT_iSCSITarget",
            Self::IscsiSession => "MSFT_iSCSISession",
            Self::IscsiConnection => "MSFT_iSCSIConnection",
            Self::Bios => "CIM_BIOSElement",
            Self::Service => "Win32_Service",
        }
    }

    pub fn namespace(self) -> Namespace {
        match self {
            Self::SmbGlobalMapping => Namespace::Smb,
            Self::Bios | Self::Service => Namespace::Cim,
            _ => Namespace::Storage,
        }
    }
}

impl Call {
    /// `MSFT_Disk.Initialize`
    pub fn name(self) -> &'static str {
        self.name
    }

    /// `MSFT_Disk`
    pub fn class(self) -> Class {
        self.class
    }

    pub fn method(self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Association {
    fn name(self) -> &'static str {
        match self {
            Self::PartitionToVolume => "MSFT_PartitionToVolume",
            Self::TargetToPortal => "MSFT_iSCSITargetToiSCSITargetPortal",
            Self::TargetToSession => "MSFT_iSCSITargetToiSCSISession",
            Self::TargetToConnection => "MSFT_iSCSITargetToiSCSIConnection",
            Self::ConnectionToDisk => "MSFT_iSCSIConnectionToDisk",
        }
    }
}

/// Columns of one disk.
const DISK: &str =
    "ObjectId, SerialNumber, PartitionStyle, IsOffline, OfflineReason, IsReadOnly, Size, IsBoot, IsSystem";
const PARTITION: &str =
    "ObjectId, DiskNumber, PartitionNumber, GptType, Size, IsOffline, IsBoot, IsSystem, DriveLetter";
const VOLUME: &str = "ObjectId, FileSystemType, Size, SizeRemaining, DriveLetter";

pub(super) const DISK_LOCATIONS: &str = "SELECT Number, Location FROM MSFT_Disk";
pub(super) const DISK_SERIALS: &str = "SELECT Path, SerialNumber FROM MSFT_Disk";
pub(super) const PORTALS: &str = "SELECT * FROM MSFT_iSCSITargetPortal";
pub(super) const BIOS_SERIALS: &str = "SELECT SerialNumber FROM CIM_BIOSElement";

pub(super) fn disk(number: u32) -> String {
    format!("SELECT {DISK} FROM MSFT_Disk WHERE Number = {number}")
}

pub(super) fn partitions(disk: u32, number: Option<u32>) -> String {
    let one = number.map(|number| format!(" AND PartitionNumber = {number}")).unwrap_or_default();
    format!("SELECT {PARTITION} FROM MSFT_Partition WHERE DiskNumber = {disk}{one}")
}

pub(super) fn partition_of_drive(letter: char) -> String {
    format!("SELECT {PARTITION} FROM MSFT_Partition WHERE DriveLetter = '{letter}'")
}

pub(super) fn volume(id: &dyn fmt::Display) -> String {
    format!("SELECT {VOLUME} FROM MSFT_Volume WHERE UniqueId = {}", literal(&id.to_string()))
}

pub(super) fn mapping(root: &str) -> String {
    format!("SELECT * FROM MSFT_SmbGlobalMapping WHERE RemotePath = {}", literal(root))
}

pub(super) fn portal(address: &str, port: u16) -> String {
    let address = literal(address);
    format!("{PORTALS} WHERE TargetPortalAddress = {address} AND TargetPortalPortNumber = {port}")
}

pub(super) fn service(name: &str) -> String {
    format!("SELECT Name, DisplayName, State, StartMode FROM Win32_Service WHERE Name = {}", literal(name))
}

pub(super) fn service_path(name: &str) -> ObjectPath {
    ObjectPath(format!("Win32_Service.Name=\"{}\"", name.replace('\\', r"\\").replace('"', "\\\"")))
}

pub(super) fn associated(object: &ObjectPath, association: Association, to: Class) -> String {
    format!("ASSOCIATORS OF {{{object}}} WHERE AssocClass = {} ResultClass = {}", association.name(), to.name())
}

pub(super) fn dependents(service: &ObjectPath) -> String {
    format!(
        "ASSOCIATORS OF {{{service}}} WHERE AssocClass = Win32_DependentService Role = Antecedent ResultRole = Dependent"
    )
}

/// Quotes a text for WQL: a backslash before each backslash and quote.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

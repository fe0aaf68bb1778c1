//! All queries and calls that this program sends to WMI.

use std::fmt;

use crate::host::ObjectPath;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    Storage,
    Smb,
    Cim,
}

macro_rules! names {
    ($(#[$doc:meta])* $visibility:vis enum $enum:ident { $($variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $enum { $($variant),* }

        impl $enum {
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

names! {
    pub enum Class {
        Disk = "MSFT_Disk",
        Partition = "MSFT_Partition",
        Volume = "MSFT_Volume",
        StorageSetting = "MSFT_StorageSetting",
        SmbGlobalMapping = "MSFT_SmbGlobalMapping",
        IscsiTargetPortal = "MSFT_iSCSITargetPortal",
        IscsiTarget = "MSFT_iSCSITarget",
        IscsiSession = "MSFT_iSCSISession",
        IscsiConnection = "MSFT_iSCSIConnection",
        Bios = "CIM_BIOSElement",
        Service = "Win32_Service",
    }
}

names! {
    pub enum Association {
        PartitionToVolume = "MSFT_PartitionToVolume",
        TargetToPortal = "MSFT_iSCSITargetToiSCSITargetPortal",
        TargetToSession = "MSFT_iSCSITargetToiSCSISession",
        TargetToConnection = "MSFT_iSCSITargetToiSCSIConnection",
        ConnectionToDisk = "MSFT_iSCSIConnectionToDisk",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    class: Class,
    name: &'static str,
}

macro_rules! calls {
    ($($constant:ident: $class:ident, $name:literal;)*) => {
        impl Call {
            $(pub const $constant: Self = Self { class: Class::$class, name: $name };)*
        }
    };
}

calls! {
    INITIALIZE: Disk, "MSFT_Disk.Initialize";
    CREATE_PARTITION: Disk, "MSFT_Disk.CreatePartition";
    REFRESH_DISK: Disk, "MSFT_Disk.Refresh";
    ONLINE_DISK: Disk, "MSFT_Disk.Online";
    OFFLINE_DISK: Disk, "MSFT_Disk.Offline";
    SET_DISK_ATTRIBUTES: Disk, "MSFT_Disk.SetAttributes";
    ONLINE_PARTITION: Partition, "MSFT_Partition.Online";
    SUPPORTED_SIZE: Partition, "MSFT_Partition.GetSupportedSize";
    RESIZE: Partition, "MSFT_Partition.Resize";
    FORMAT: Volume, "MSFT_Volume.Format";
    FLUSH: Volume, "MSFT_Volume.Flush";
    UPDATE_CACHE: StorageSetting, "MSFT_StorageSetting.UpdateHostStorageCache";
    CREATE_MAPPING: SmbGlobalMapping, "MSFT_SmbGlobalMapping.Create";
    REMOVE_MAPPING: SmbGlobalMapping, "MSFT_SmbGlobalMapping.Remove";
    NEW_PORTAL: IscsiTargetPortal, "MSFT_iSCSITargetPortal.New";
    REMOVE_PORTAL: IscsiTargetPortal, "MSFT_iSCSITargetPortal.Remove";
    CONNECT_TARGET: IscsiTarget, "MSFT_iSCSITarget.Connect";
    DISCONNECT_TARGET: IscsiTarget, "MSFT_iSCSITarget.Disconnect";
    UNREGISTER_SESSION: IscsiSession, "MSFT_iSCSISession.Unregister";
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
    pub fn namespace(self) -> Namespace {
        match self {
            Self::SmbGlobalMapping => Namespace::Smb,
            Self::Bios | Self::Service => Namespace::Cim,
            _ => Namespace::Storage,
        }
    }
}

impl Call {
    pub fn name(self) -> &'static str {
        self.name
    }

    pub fn class(self) -> Class {
        self.class
    }

    pub fn method(self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

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

/// Quotes a string for WQL: puts a backslash before each backslash and quote.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

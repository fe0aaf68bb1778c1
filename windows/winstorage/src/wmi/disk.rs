//! WMI queries and calls for disks and partitions.

use super::vocabulary::{self, Call, Class};
use super::{On, Row, Value, Wmi, WmiHost};
use crate::host::{
    Disk, DiskHost, DiskRow, HostError, NativeHost, OfflineReason, Partition, PartitionKind, PartitionStyle,
};
use crate::types::{DiskNumber, PartitionNumber};

/// `MSFT_Disk.PartitionStyle`
const MBR: u64 = 1;
const GPT: u64 = 2;
const RESERVED: &str = "{e3c9e316-0b5c-4db8-817d-f92df00215ae}";
const BASIC_DATA: &str = "{ebd0a0a2-b9e5-4433-87c0-68b6b72699c7}";

impl<W: Wmi, N: NativeHost> DiskHost for WmiHost<W, N> {
    fn disk_locations(&self) -> Result<Vec<(DiskNumber, String)>, HostError> {
        let read = |row: &Row| Ok((DiskNumber(row.number32("Number")?), row.text("Location")?.to_owned()));
        self.all(Class::Disk, vocabulary::DISK_LOCATIONS, &"all disks", &read)
    }

    fn disks(&self) -> Result<Vec<DiskRow>, HostError> {
        let read = |row: &Row| {
            Ok(DiskRow { device: row.text("Path")?.to_owned(), serial: row.text("SerialNumber")?.to_owned() })
        };
        self.all(Class::Disk, vocabulary::DISK_SERIALS, &"all disks", &read)
    }

    fn disk(&self, disk: DiskNumber) -> Result<Option<Disk>, HostError> {
        let object = format!("disk {disk}");
        self.first(Class::Disk, &vocabulary::disk(disk.0), &object, &|row| read_disk(row, disk))
    }

    fn system_disk(&self) -> Result<Option<DiskNumber>, HostError> {
        let letter = self.native.system_drive()?;
        let read = |row: &Row| row.number32("DiskNumber").map(DiskNumber);
        self.first(Class::Partition, &vocabulary::partition_of_drive(letter), &format!("drive {letter}:"), &read)
    }

    fn rescan(&self) -> Result<(), HostError> {
        self.call(On::Class, Call::UPDATE_CACHE, &[], &"all disks").map(drop)
    }

    fn initialize_gpt(&self, disk: &Disk) -> Result<(), HostError> {
        self.on_disk(disk, Call::INITIALIZE, &[("PartitionStyle", Value::U16(2))])
    }

    fn create_data_partition(&self, disk: &Disk) -> Result<(), HostError> {
        let arguments = [
            ("UseMaximumSize", Value::Bool(true)),
            ("AssignDriveLetter", Value::Bool(false)),
            ("GptType", Value::Text(BASIC_DATA.to_owned())),
            ("IsHidden", Value::Bool(false)),
            ("IsActive", Value::Bool(false)),
        ];
        self.on_disk(disk, Call::CREATE_PARTITION, &arguments)
    }

    fn refresh_disk(&self, disk: &Disk) -> Result<(), HostError> {
        self.on_disk(disk, Call::REFRESH_DISK, &[])
    }

    fn set_online(&self, disk: &Disk, online: bool) -> Result<(), HostError> {
        self.on_disk(disk, if online { Call::ONLINE_DISK } else { Call::OFFLINE_DISK }, &[])
    }

    fn set_disk_read_only(&self, disk: &Disk, read_only: bool) -> Result<(), HostError> {
        self.on_disk(disk, Call::SET_DISK_ATTRIBUTES, &[("IsReadOnly", Value::Bool(read_only))])
    }

    fn partitions(&self, disk: DiskNumber, number: Option<PartitionNumber>) -> Result<Vec<Partition>, HostError> {
        let wql = vocabulary::partitions(disk.0, number.map(PartitionNumber::get));
        let mut partitions = self.all(Class::Partition, &wql, &format!("disk {disk}"), &read_partition)?;
        partitions.sort_by_key(|partition| partition.number);
        Ok(partitions)
    }

    fn online_partition(&self, partition: &Partition) -> Result<(), HostError> {
        self.on_partition(partition, Call::ONLINE_PARTITION, &[]).map(drop)
    }

    fn largest_size(&self, partition: &Partition) -> Result<u64, HostError> {
        let out = self.on_partition(partition, Call::SUPPORTED_SIZE, &[])?;
        out.number("SizeMax").map_err(|what| HostError::malformed(Call::SUPPORTED_SIZE.name(), named(partition), what))
    }

    fn resize_partition(&self, partition: &Partition, size: u64) -> Result<(), HostError> {
        self.on_partition(partition, Call::RESIZE, &[("Size", Value::U64(size))]).map(drop)
    }
}

impl<W: Wmi, N: NativeHost> WmiHost<W, N> {
    fn on_disk(&self, disk: &Disk, call: Call, arguments: &[(&'static str, Value)]) -> Result<(), HostError> {
        self.call(On::Object(&disk.object), call, arguments, &format!("disk {}", disk.number)).map(drop)
    }

    fn on_partition(
        &self,
        partition: &Partition,
        call: Call,
        arguments: &[(&'static str, Value)],
    ) -> Result<Row, HostError> {
        self.call(On::Object(&partition.object), call, arguments, &named(partition))
    }
}

fn read_disk(row: &Row, number: DiskNumber) -> Result<Disk, String> {
    Ok(Disk {
        object: row.path()?,
        number,
        style: match row.number("PartitionStyle")? {
            0 => PartitionStyle::Raw,
            MBR => PartitionStyle::Mbr,
            GPT => PartitionStyle::Gpt,
            // An unknown value is an error, because only a disk that is known to be empty may be initialised.
            other => return Err(format!("PartitionStyle has the unknown value {other}")),
        },
        serial: row.text("SerialNumber")?.to_owned(),
        is_offline: row.flag("IsOffline")?,
        // An online disk has no reason. The number is only used in messages, so omit an invalid one.
        offline_reason: row.number32("OfflineReason").ok().filter(|reason| *reason != 0).map(OfflineReason),
        is_read_only: row.flag("IsReadOnly")?,
        size: row.number("Size")?,
        is_boot: row.flag("IsBoot")?,
        is_system: row.flag("IsSystem")?,
    })
}

pub(super) fn read_partition(row: &Row) -> Result<Partition, String> {
    let number = row.number32("PartitionNumber")?;
    Ok(Partition {
        object: row.path()?,
        disk: DiskNumber(row.number32("DiskNumber")?),
        number: PartitionNumber::new(number).ok_or("PartitionNumber is 0")?,
        kind: match row.text("GptType")? {
            kind if kind.eq_ignore_ascii_case(RESERVED) => PartitionKind::Reserved,
            kind if kind.eq_ignore_ascii_case(BASIC_DATA) => PartitionKind::Data,
            _ => PartitionKind::Other,
        },
        size: row.number("Size")?,
        is_offline: row.flag("IsOffline")?,
        is_boot: row.flag("IsBoot")?,
        is_system: row.flag("IsSystem")?,
        drive_letter: row.drive_letter("DriveLetter")?,
    })
}

fn named(partition: &Partition) -> String {
    format!("partition {} of disk {}", partition.number, partition.disk)
}

//! Volumes.

use super::disk::read_partitions;
use super::vocabulary::{self, Association, Call, Class};
use super::{On, Row, Value, Wmi, WmiHost};
use crate::host::{HostError, NativeHost, Partition, VolumeHost, VolumeRow};
use crate::types::VolumeGuid;

impl<W: Wmi, N: NativeHost> VolumeHost for WmiHost<W, N> {
    fn volumes_of_partition(&self, partition: &Partition) -> Result<Vec<VolumeGuid>, HostError> {
        let object = format!("partition {} of disk {}", partition.number, partition.disk);
        let wql = vocabulary::associated(&partition.object, Association::PartitionToVolume, Class::Volume);
        let rows = self.associated(Class::Volume, &wql, &object)?;
        let read = |row: &Row| VolumeGuid::parse(row.text("UniqueId")?).map_err(|error| error.to_string());
        rows.iter().map(read).collect::<Result<_, String>>().map_err(|what| odd(&object, what))
    }

    fn partitions_of_volume(&self, volume: &VolumeRow) -> Result<Vec<Partition>, HostError> {
        let wql = vocabulary::associated(&volume.object, Association::PartitionToVolume, Class::Partition);
        let rows = self.associated(Class::Partition, &wql, &volume.id)?;
        read_partitions(&rows, &volume.id)
    }

    fn volume(&self, volume: &VolumeGuid) -> Result<Option<VolumeRow>, HostError> {
        let rows = self.query(Class::Volume, &vocabulary::volume(volume), volume)?;
        let read = |row: &Row| {
            Ok::<_, String>(VolumeRow {
                object: row.path()?,
                id: volume.clone(),
                is_formatted: row.number("FileSystemType")? != 0,
                size: row.number("Size")?,
                remaining: row.number("SizeRemaining")?,
                drive_letter: row.drive_letter("DriveLetter")?,
            })
        };
        rows.first().map(read).transpose().map_err(|what| odd(volume, what))
    }

    fn format_ntfs(&self, volume: &VolumeRow) -> Result<(), HostError> {
        let arguments = [
            ("FileSystem", Value::Text("NTFS".to_owned())),
            ("FileSystemLabel", Value::Text(String::new())),
            ("Full", Value::Bool(false)),
            ("Force", Value::Bool(true)),
        ];
        self.call(On::Object(&volume.object), Call::FORMAT, &arguments, &volume.id).map(drop)
    }

    fn flush(&self, volume: &VolumeRow) -> Result<(), HostError> {
        self.call(On::Object(&volume.object), Call::FLUSH, &[], &volume.id).map(drop)
    }
}

fn odd(object: &dyn std::fmt::Display, what: String) -> HostError {
    HostError::malformed(Class::Volume.name(), object, what)
}

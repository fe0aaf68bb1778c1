//! Volumes.

use super::disk::read_partition;
use super::vocabulary::{self, Association, Call, Class};
use super::{On, Row, Value, Wmi, WmiHost};
use crate::host::{HostError, NativeHost, Partition, VolumeHost, VolumeRow};
use crate::types::VolumeGuid;

impl<W: Wmi, N: NativeHost> VolumeHost for WmiHost<W, N> {
    fn volumes_of_partition(&self, partition: &Partition) -> Result<Vec<VolumeGuid>, HostError> {
        let object = format!("partition {} of disk {}", partition.number, partition.disk);
        let wql = vocabulary::associated(&partition.object, Association::PartitionToVolume, Class::Volume);
        let read = |row: &Row| VolumeGuid::parse(row.text("UniqueId")?).map_err(|error| error.to_string());
        self.all(Class::Volume, &wql, &object, &read)
    }

    fn partitions_of_volume(&self, volume: &VolumeRow) -> Result<Vec<Partition>, HostError> {
        let wql = vocabulary::associated(&volume.object, Association::PartitionToVolume, Class::Partition);
        self.all(Class::Partition, &wql, &volume.id, &read_partition)
    }

    fn volume(&self, volume: &VolumeGuid) -> Result<Option<VolumeRow>, HostError> {
        let read = |row: &Row| {
            Ok(VolumeRow {
                object: row.path()?,
                id: volume.clone(),
                is_formatted: row.number("FileSystemType")? != 0,
                size: row.number("Size")?,
                remaining: row.number("SizeRemaining")?,
                drive_letter: row.drive_letter("DriveLetter")?,
            })
        };
        self.first(Class::Volume, &vocabulary::volume(volume), volume, &read)
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

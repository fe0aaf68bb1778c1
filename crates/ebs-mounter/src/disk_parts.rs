//! Lists a whole disk and its partitions from sysfs.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::MounterConfig;
use crate::os::{DeviceNumber, if_exists};

pub(crate) fn disk_directory(config: &MounterConfig, number: DeviceNumber) -> io::Result<Option<PathBuf>> {
    let place = config.sys.join("dev/block").join(number.to_string());
    let Some(directory) = if_exists(place.canonicalize())? else { return Ok(None) };
    let is_partition = directory.join("partition").try_exists()?;
    Ok(if is_partition { directory.parent().map(Path::to_owned) } else { Some(directory) })
}

/// Returns the sysfs directories of a whole disk and then of its partitions, or nothing if the disk does not exist.
pub(crate) fn parts_of(config: &MounterConfig, number: DeviceNumber) -> io::Result<Vec<PathBuf>> {
    let Some(disk) = disk_directory(config, number)? else { return Ok(Vec::new()) };
    let mut parts = vec![disk.clone()];
    for entry in std::fs::read_dir(&disk)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && entry.path().join("partition").try_exists()? {
            parts.push(entry.path());
        }
    }
    Ok(parts)
}

pub(crate) fn numbers_of(config: &MounterConfig, number: DeviceNumber) -> io::Result<Vec<DeviceNumber>> {
    let parts = parts_of(config, number)?;
    Ok(std::iter::once(number).chain(parts.iter().filter_map(|part| number_in(part))).collect())
}

pub(crate) fn number_in(directory: &Path) -> Option<DeviceNumber> {
    DeviceNumber::parse(std::fs::read_to_string(directory.join("dev")).ok()?.trim())
}

/// Distinguishes a disk from a later one with the same device number, by the kernel's sequence number (unique per boot,
/// since Linux 5.15) and by the serial number. Each is `None` if the kernel does not provide it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskIdentity {
    diskseq: Option<String>,
    serial: Option<String>,
}

impl DiskIdentity {
    pub(crate) fn of(config: &MounterConfig, number: DeviceNumber) -> Self {
        let disk = disk_directory(config, number).ok().flatten();
        let read = |name: &str| std::fs::read_to_string(disk.as_ref()?.join(name)).ok();
        Self { diskseq: read("diskseq"), serial: read("device/serial") }
    }
}

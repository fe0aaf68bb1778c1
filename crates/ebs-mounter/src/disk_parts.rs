//! A whole disk and its partitions, as sysfs lists them.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::MounterConfig;
use crate::device_number::DeviceNumber;

/// The directory in sysfs of the disk that a number belongs to; `None` when there is none.
pub(crate) fn disk_directory(config: &MounterConfig, number: DeviceNumber) -> io::Result<Option<PathBuf>> {
    let directory = match config.sys.join("dev/block").join(number.to_string()).canonicalize() {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_partition = directory.join("partition").try_exists()?;
    Ok(if is_partition { directory.parent().map(Path::to_owned) } else { Some(directory) })
}

/// The directories in sysfs of a whole disk and, after it, of its partitions, by the number of any of them; empty when there
/// is no such disk.
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

/// The numbers of a whole disk and of its partitions, by the number of any of them.
pub(crate) fn numbers_of(config: &MounterConfig, number: DeviceNumber) -> io::Result<Vec<DeviceNumber>> {
    let parts = parts_of(config, number)?;
    Ok(std::iter::once(number).chain(parts.iter().filter_map(|part| number_in(part))).collect())
}

pub(crate) fn number_in(directory: &Path) -> Option<DeviceNumber> {
    DeviceNumber::parse(std::fs::read_to_string(directory.join("dev")).ok()?.trim())
}

/// What tells one disk from another that has its number later: the kernel's sequence number, which no two disks of one run of the
/// kernel share (Linux 5.15 and later), and the serial number. Either is `None` where the kernel gives none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskIdentity {
    diskseq: Option<String>,
    serial: Option<String>,
}

impl DiskIdentity {
    /// A disk that cannot be looked at has neither number.
    pub(crate) fn of(config: &MounterConfig, number: DeviceNumber) -> Self {
        let disk = disk_directory(config, number).ok().flatten();
        let read = |name: &str| std::fs::read_to_string(disk.as_ref()?.join(name)).ok();
        Self { diskseq: read("diskseq"), serial: read("device/serial") }
    }
}

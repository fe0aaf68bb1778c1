//! Where a volume's device may be, in the order in which we look.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::identity::{self, Identity, IdentityError};
use super::{Device, DeviceError, DeviceQuery};
use crate::bounded;
use crate::device_number::DeviceNumber;
use crate::mounter::MounterConfig;
use crate::os;

/// How often the search for a late device repeats.
const INTERVAL: Duration = Duration::from_millis(200);

/// Searches until the device is there or the configured time has passed.
pub(super) async fn find(config: &Arc<MounterConfig>, query: &DeviceQuery) -> Result<Device, DeviceError> {
    let deadline = Instant::now() + config.late_device;
    loop {
        let (config, wanted) = (Arc::clone(config), query.clone());
        let place = config.dev.clone();
        match bounded::reading("searching", &place, move || search(&config, &wanted)).await {
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(DeviceError::Stuck(stuck)) => return Err(stuck.into()),
            Err(_not_yet) => tokio::time::sleep(INTERVAL).await,
            Ok(device) => return Ok(device),
        }
    }
}

/// One look at every place. The first rejection is kept: it explains the failure best.
fn search(config: &MounterConfig, query: &DeviceQuery) -> Result<Device, DeviceError> {
    let mut rejected = None;
    for path in candidates(config, query) {
        match examine(config, query, &path) {
            Ok(Some(device)) => return with_partition(config, query, device),
            Ok(None) => {}
            Err(error) => {
                rejected.get_or_insert(error);
            }
        }
    }
    Err(rejected.unwrap_or_else(|| {
        let hint = query.hint.as_ref().map_or_else(String::new, |hint| format!("{}, ", hint.display()));
        let looked = format!("looked at {hint}{} and every NVMe serial number", by_id(config, query, "").display());
        DeviceError::Missing { volume: query.volume.clone(), looked }
    }))
}

/// The name that udev gives a volume.
fn by_id(config: &MounterConfig, query: &DeviceQuery, suffix: &str) -> PathBuf {
    let name = format!("nvme-Amazon_Elastic_Block_Store_{}{suffix}", query.volume.serial());
    config.dev.join("disk/by-id").join(name)
}

fn candidates(config: &MounterConfig, query: &DeviceQuery) -> Vec<PathBuf> {
    // An empty hint (old attachments) names nothing.
    let hint = query.hint.iter().filter(|hint| hint.is_absolute()).cloned();
    hint.chain([by_id(config, query, ""), by_id(config, query, "_1")]).chain(in_sysfs(config)).collect()
}

/// Every NVMe namespace and, where disks are simulated, every loop device. A disk that sysfs lists is examined like
/// any other, so nothing is decided here.
fn in_sysfs(config: &MounterConfig) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(config.sys.join("block")) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let kinds: &[&str] = if config.simulated_devices.is_some() { &["nvme", "loop"] } else { &["nvme"] };
    names.filter(|name| kinds.iter().any(|kind| name.starts_with(kind))).map(|name| config.dev.join(name)).collect()
}

/// The device at a path when it is the volume; `None` when nothing is there, or, from sysfs, when it is another disk.
fn examine(config: &MounterConfig, query: &DeviceQuery, path: &Path) -> Result<Option<Device>, DeviceError> {
    let volume = &query.volume;
    let is_named_for_it = path.parent() != Some(config.dev.as_path()) || query.hint.as_deref() == Some(path);
    let unusable = |source| DeviceError::Unusable { volume: volume.clone(), path: path.to_owned(), source };
    let opened = match open(config, path) {
        Ok(Some(opened)) => opened,
        Ok(None) => return Ok(None),
        Err(_) if !is_named_for_it => return Ok(None),
        Err(error) => return Err(unusable(error)),
    };
    let identity = match identify(config, &opened) {
        Ok(identity) => identity,
        Err(_) if !is_named_for_it => return Ok(None),
        Err(error) => return Err(unusable(error)),
    };
    let is_it = match &identity {
        Identity::Volume(found) => found == volume,
        Identity::Silent => config.xen && query.hint.as_deref() == Some(path),
        Identity::Other(_) => false,
    };
    if is_it {
        let Opened { path, file, number } = opened;
        return Ok(Some(Device { volume: volume.clone(), path, number, disk: number, file: Arc::new(file) }));
    }
    if !is_named_for_it {
        return Ok(None);
    }
    Err(DeviceError::Foreign { volume: volume.clone(), path: path.to_owned(), found: identity.to_string() })
}

struct Opened {
    path: PathBuf,
    file: File,
    number: DeviceNumber,
}

/// Opens what a path leads to, when it is a block device in the directory of devices; `None` when nothing is there.
fn open(config: &MounterConfig, path: &Path) -> Result<Option<Opened>, IdentityError> {
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !real.starts_with(&config.dev) {
        return Err(IdentityError::Elsewhere(real));
    }
    if os::block_device_number(&std::fs::metadata(&real)?).is_none() {
        return Err(IdentityError::NotABlockDevice);
    }
    // Not blocking: opening must not wait for a medium.
    let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&real);
    let file = match opened {
        Ok(file) => file,
        // A device node that lost its device, or a loop device without one.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let number = os::block_device_number(&file.metadata()?).ok_or(IdentityError::NotABlockDevice)?;
    Ok(Some(Opened { path: real, file, number }))
}

/// What the opened device says it is. It must be a whole disk: a volume's name never leads to a partition.
fn identify(config: &MounterConfig, opened: &Opened) -> Result<Identity, IdentityError> {
    let Some(disk) = identity::disk(config, opened.number)? else {
        return Ok(Identity::Other("a device that the kernel does not list".to_owned()));
    };
    let is_whole = identity::place(config, opened.number).canonicalize()? == disk;
    if !is_whole {
        return Ok(Identity::Other(format!("a partition of {}", disk.file_name().unwrap_or_default().display())));
    }
    identity::of_disk(config, &disk, || opened.file.try_clone())
}

fn with_partition(config: &MounterConfig, query: &DeviceQuery, disk: Device) -> Result<Device, DeviceError> {
    let Some(partition) = query.partition else { return Ok(disk) };
    let volume = query.volume.clone();
    let missing = || DeviceError::NoPartition { volume: volume.clone(), disk: disk.path.clone(), partition };
    let unusable = |source| DeviceError::Unusable { volume: volume.clone(), path: disk.path.clone(), source };
    let path =
        partition_node(config, &disk, partition.number()).map_err(|e| unusable(e.into()))?.ok_or_else(missing)?;
    let opened = open(config, &path).map_err(unusable)?.ok_or_else(missing)?;
    Ok(Device { path: opened.path, number: opened.number, file: Arc::new(opened.file), ..disk.clone() })
}

/// The device node of a partition, by what sysfs lists below the disk.
fn partition_node(config: &MounterConfig, disk: &Device, number: u8) -> io::Result<Option<PathBuf>> {
    for entry in std::fs::read_dir(identity::place(config, disk.disk))? {
        let entry = entry?;
        let listed = identity::attribute(&entry.path().join("partition")).unwrap_or(None);
        if listed.is_some_and(|text| text == number.to_string()) {
            return Ok(Some(config.dev.join(entry.file_name())));
        }
    }
    Ok(None)
}

/// Checks that a held device is still the volume and that its path still leads to it.
pub(super) fn reconfirm(config: &MounterConfig, device: &Device) -> Result<(), DeviceError> {
    let changed =
        |change: String| DeviceError::Changed { volume: device.volume.clone(), path: device.path.clone(), change };
    let unusable = |source| DeviceError::Unusable { volume: device.volume.clone(), path: device.path.clone(), source };
    let now = std::fs::metadata(&device.path).map_err(|error| changed(error.to_string()))?;
    match os::block_device_number(&now) {
        Some(number) if number == device.number => {}
        Some(number) => return Err(changed(format!("its name leads to device {number}, not {}", device.number))),
        None => return Err(changed("its name leads to no block device".to_owned())),
    }
    match identity::of_number(config, device.number).map_err(unusable)? {
        // Xen: the name is all there is, and it still leads to the same device.
        Some(Identity::Silent) if config.xen => Ok(()),
        Some(Identity::Volume(id)) if id == device.volume => Ok(()),
        Some(other) => Err(changed(format!("it is {other} now"))),
        None => Err(changed("it has vanished".to_owned())),
    }
}

/// The device with a number, when its disk is the volume or says nothing of itself.
pub(super) fn open_number(
    config: &MounterConfig,
    volume: &ebs_types::VolumeId,
    number: DeviceNumber,
) -> Result<Device, DeviceError> {
    let place = identity::place(config, number);
    let unusable =
        |path: &Path, source| DeviceError::Unusable { volume: volume.clone(), path: path.to_owned(), source };
    let directory = place.canonicalize().map_err(|error| unusable(&place, error.into()))?;
    let path = config.dev.join(directory.file_name().unwrap_or_default());
    let missing = || unusable(&path, IdentityError::NotABlockDevice);
    let opened = open(config, &path).map_err(|source| unusable(&path, source))?.ok_or_else(missing)?;
    let disk = disk_number(config, number).map_err(|error| unusable(&path, error.into()))?.ok_or_else(missing)?;
    let identity = identity::of_number(config, opened.number).map_err(|source| unusable(&path, source))?;
    match identity {
        Some(Identity::Volume(found)) if found == *volume && opened.number == number => {}
        Some(Identity::Silent) if config.xen && opened.number == number => {}
        other => {
            let found = other.map_or_else(|| "a device that vanished".to_owned(), |identity| identity.to_string());
            return Err(DeviceError::Foreign { volume: volume.clone(), path, found });
        }
    }
    let Opened { path, file, number } = opened;
    Ok(Device { volume: volume.clone(), path, number, disk, file: Arc::new(file) })
}

/// The number of the disk that a number belongs to.
pub(super) fn disk_number(config: &MounterConfig, number: DeviceNumber) -> io::Result<Option<DeviceNumber>> {
    let Some(disk) = identity::disk(config, number)? else { return Ok(None) };
    Ok(identity::attribute(&disk.join("dev"))?.as_deref().and_then(DeviceNumber::parse))
}

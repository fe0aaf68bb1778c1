//! Searches for the device of a volume (`docs/dev/decisions/0017-identify-a-disk-by-its-serial-number.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebs_ec2::VolumeId;
use tokio::time::Instant;

use super::arrivals::Arrivals;
use super::identity::{self, Identity, IdentityError};
use super::{Device, DeviceError, DeviceQuery, Held};
use crate::bounded;
use crate::config::MounterConfig;
use crate::os::{self, DeviceNumber};

/// Searches now and after each kernel event about a block device, until the configured time has passed.
pub(super) async fn find(config: &Arc<MounterConfig>, query: &DeviceQuery) -> Result<Device, DeviceError> {
    let deadline = Instant::now() + config.late_device;
    match search(config, query).await {
        Err(error) if is_final(&error, deadline) => Err(error),
        Err(_not_yet) => find_late(config, query, Arrivals::listen(), deadline).await,
        Ok(device) => Ok(device),
    }
}

/// Searches again after every new device, including one that appears during a search.
async fn find_late(
    config: &Arc<MounterConfig>,
    query: &DeviceQuery,
    mut arrivals: Arrivals,
    deadline: Instant,
) -> Result<Device, DeviceError> {
    loop {
        match search(config, query).await {
            Err(error) if is_final(&error, deadline) => return Err(error),
            Err(_not_yet) => arrivals.wait(deadline).await,
            Ok(device) => return Ok(device),
        }
    }
}

fn is_final(error: &DeviceError, deadline: Instant) -> bool {
    matches!(error, DeviceError::Stuck(_)) || Instant::now() >= deadline
}

/// Searches every place once. Each place has its own time limit, so a hung disk does not affect other volumes. If
/// nothing is found, returns the error of a hung disk or else the first rejection, which explains the failure best.
async fn search(config: &Arc<MounterConfig>, query: &DeviceQuery) -> Result<Device, DeviceError> {
    let mut rejected: Option<DeviceError> = None;
    for path in candidates(config, query).await? {
        match examine(config, query, &path).await {
            Ok(Some(device)) => return with_partition(config, query, device).await,
            Ok(None) => {}
            Err(DeviceError::Stuck(stuck)) => rejected = Some(stuck.into()),
            Err(error) => {
                rejected.get_or_insert(error);
            }
        }
    }
    Err(rejected.unwrap_or_else(|| {
        let hint = query.hint.as_ref().map_or_else(String::new, |hint| format!("{}, ", hint.display()));
        let looked = format!("checked {hint}{} and every NVMe serial number", by_id(config, query, "").display());
        DeviceError::Missing { volume: query.volume.clone(), looked }
    }))
}

fn by_id(config: &MounterConfig, query: &DeviceQuery, suffix: &str) -> PathBuf {
    let name = format!("nvme-Amazon_Elastic_Block_Store_{}{suffix}", query.volume.serial());
    config.dev.join("disk/by-id").join(name)
}

async fn candidates(config: &Arc<MounterConfig>, query: &DeviceQuery) -> Result<Vec<PathBuf>, DeviceError> {
    // Attachments that old controllers made have an empty hint: ignore it.
    let hint = query.hint.iter().filter(|hint| hint.is_absolute()).cloned();
    let named = hint.chain([by_id(config, query, ""), by_id(config, query, "_1")]);
    let (place, of) = (config.sys.join("block"), Arc::clone(config));
    let listed = bounded::reading("listing", &place, move || Ok::<_, DeviceError>(in_sysfs(&of))).await?;
    Ok(named.chain(listed).collect())
}

/// Returns the paths of every NVMe namespace and, if disks are simulated, of every loop device.
fn in_sysfs(config: &MounterConfig) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(config.sys.join("block")) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let kinds: &[&str] = if config.simulated_devices.is_some() { &["nvme", "loop"] } else { &["nvme"] };
    names.filter(|name| kinds.iter().any(|kind| name.starts_with(kind))).map(|name| config.dev.join(name)).collect()
}

/// Returns the volumes whose disks sysfs lists now and which report their identity. Does not open the disks.
pub(crate) fn volumes_here(config: &MounterConfig) -> BTreeSet<VolumeId> {
    let volume = |disk: PathBuf| {
        let place = config.sys.join("block").join(disk.file_name()?);
        match identity::in_sysfs(config, &place) {
            Ok(Some(Identity::Volume(volume))) => Some(volume),
            _ => None,
        }
    };
    in_sysfs(config).into_iter().filter_map(volume).collect()
}

/// Returns the device at a path if it is the volume, and `None` if the path is missing or belongs to another disk in
/// sysfs. Opens the device only if sysfs identifies it, or if sysfs has no serial number and the path has the volume's
/// name.
async fn examine(config: &Arc<MounterConfig>, query: &DeviceQuery, path: &Path) -> Result<Option<Device>, DeviceError> {
    let has_volume_name = path.parent() != Some(config.dev.as_path()) || query.hint.as_deref() == Some(path);
    let rejected = |source: IdentityError| match source {
        IdentityError::Stuck(stuck) => Err(DeviceError::Stuck(stuck)),
        _ if !has_volume_name => Ok(None),
        source => Err(DeviceError::Unusable { volume: query.volume.clone(), path: path.to_owned(), source }),
    };
    let is_wanted = |identity: &Identity| match identity {
        Identity::Volume(found) => *found == query.volume,
        Identity::Silent => config.xen && query.hint.as_deref() == Some(path),
        Identity::Other(_) => false,
    };
    let foreign = |found: &Identity| {
        let found = found.to_string();
        Err(DeviceError::Foreign { volume: query.volume.clone(), path: path.to_owned(), found })
    };
    let (of, at) = (Arc::clone(config), path.to_owned());
    let resolved = match bounded::reading("identifying", path, move || resolve(&of, &at)).await {
        Ok(Some(resolved)) => resolved,
        Ok(None) => return Ok(None),
        Err(error) => return rejected(error),
    };
    let (volume, identity) = (&query.volume, &resolved.identity);
    tracing::debug!(
        name: "v6", %volume, path = %path.display(), resolved = %resolved.path.display(), ?identity,
        "device identified"
    );
    match &resolved.identity {
        Some(identity) if is_wanted(identity) => {}
        None if has_volume_name => {}
        Some(other) if has_volume_name => return foreign(other),
        _ => return Ok(None),
    }
    let (of, place) = (Arc::clone(config), resolved.path.clone());
    match bounded::reading("opening", &place, move || open(&of, resolved)).await {
        Ok(Some((opened, identity))) if is_wanted(&identity) => {
            tracing::debug!(
                name: "v5", %volume, path = %path.display(), device = %opened.path.display(),
                "device found"
            );
            Ok(Some(opened.whole(query)))
        }
        Ok(Some((_, identity))) => foreign(&identity),
        Ok(None) => Ok(None),
        Err(error) => rejected(error),
    }
}

struct ResolvedDevice {
    path: PathBuf,
    number: DeviceNumber,
    /// `None` if only the controller can report it.
    identity: Option<Identity>,
}

struct Opened {
    path: PathBuf,
    file: File,
    number: DeviceNumber,
}

impl Opened {
    fn whole(self, query: &DeviceQuery) -> Device {
        let Self { path, file, number } = self;
        Device { volume: query.volume.clone(), path, number, disk: number, file: Held::new(file) }
    }
}

/// Follows a path to a block device and reads its identity from sysfs. Returns `None` if the path does not exist.
fn resolve(config: &MounterConfig, path: &Path) -> Result<Option<ResolvedDevice>, IdentityError> {
    let Some(real) = os::if_exists(path.canonicalize())? else { return Ok(None) };
    if !real.starts_with(&config.dev) {
        return Err(IdentityError::Elsewhere(real));
    }
    let number = os::block_device_number(&std::fs::metadata(&real)?).ok_or(IdentityError::NotABlockDevice)?;
    let identity = whole_disk(config, number, identity::in_sysfs)?;
    if let Some(Identity::Volume(_)) = identity
        && let Some(map) = identity::map_over(&identity::place(config, number))?
        && real.file_name() != Some(map.as_os_str())
    {
        return resolve(config, &config.dev.join(map));
    }
    Ok(Some(ResolvedDevice { path: real, number, identity }))
}

/// Returns the identity that `ask` reads. Rejects a partition, because a volume's name never leads to one.
fn whole_disk(
    config: &MounterConfig,
    number: DeviceNumber,
    ask: impl FnOnce(&MounterConfig, &Path) -> Result<Option<Identity>, IdentityError>,
) -> Result<Option<Identity>, IdentityError> {
    let Some(disk) = identity::disk(config, number)? else {
        return Ok(Some(Identity::Other("a device that sysfs does not list".to_owned())));
    };
    let is_whole = identity::place(config, number).canonicalize()? == disk;
    if !is_whole {
        let of = disk.file_name().unwrap_or_default().display();
        return Ok(Some(Identity::Other(format!("a partition of {of}"))));
    }
    ask(config, &disk)
}

/// Opens a device and reads its identity again, because its name or number may have passed to another disk.
fn open(config: &MounterConfig, resolved: ResolvedDevice) -> Result<Option<(Opened, Identity)>, IdentityError> {
    let Some(opened) = opened(&resolved.path)? else { return Ok(None) };
    if opened.number != resolved.number {
        let number = opened.number;
        return Ok(Some((opened, Identity::Other(format!("device {number}, which has replaced it under this name")))));
    }
    let ask =
        |config: &MounterConfig, disk: &Path| identity::of_disk(config, disk, || opened.file.try_clone()).map(Some);
    let identity = whole_disk(config, opened.number, ask)?.ok_or(IdentityError::NoSerial)?;
    Ok(Some((opened, identity)))
}

/// Opens a device node. Returns `None` if the node no longer has a device.
pub(crate) fn open_node(path: &Path) -> io::Result<Option<File>> {
    // Non-blocking, so that the open does not wait for a medium.
    match File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => Ok(Some(file)),
        // The device of this node is gone, or it is a loop device without a file.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV | libc::ENOENT)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn opened(path: &Path) -> Result<Option<Opened>, IdentityError> {
    let Some(file) = open_node(path)? else { return Ok(None) };
    let number = os::block_device_number(&file.metadata()?).ok_or(IdentityError::NotABlockDevice)?;
    Ok(Some(Opened { path: path.to_owned(), file, number }))
}

async fn with_partition(config: &Arc<MounterConfig>, query: &DeviceQuery, disk: Device) -> Result<Device, DeviceError> {
    let Some(partition) = query.partition else { return Ok(disk) };
    let missing = || DeviceError::NoPartition { volume: query.volume.clone(), disk: disk.path.clone(), partition };
    let (of, whole, place) = (Arc::clone(config), disk.clone(), disk.path.clone());
    let opened = bounded::reading("opening a partition of", &place, move || {
        let Some(node) = partition_nodes(&of, &whole)?.remove(&partition.number()) else { return Ok(None) };
        let Some(opened) = opened(&node)? else { return Ok(None) };
        let is_on_disk = disk_number(&of, opened.number)? == Some(whole.disk);
        Ok(is_on_disk.then_some(opened))
    });
    match opened.await {
        Ok(Some(Opened { path, file, number })) => Ok(Device { path, number, file: Held::new(file), ..disk.clone() }),
        Ok(None) => Err(missing()),
        Err(IdentityError::Stuck(stuck)) => Err(stuck.into()),
        Err(source) => Err(DeviceError::Unusable { volume: query.volume.clone(), path: disk.path.clone(), source }),
    }
}

pub(super) fn partition_nodes(config: &MounterConfig, disk: &Device) -> io::Result<BTreeMap<u8, PathBuf>> {
    let mut nodes = BTreeMap::new();
    for entry in std::fs::read_dir(identity::place(config, disk.disk))? {
        let entry = entry?;
        let listed = identity::attribute(&entry.path().join("partition")).unwrap_or(None);
        if let Some(number) = listed.and_then(|text| text.parse().ok()) {
            nodes.insert(number, config.dev.join(entry.file_name()));
        }
    }
    Ok(nodes)
}

pub(super) fn reconfirm(config: &MounterConfig, device: &Device) -> Result<(), DeviceError> {
    let changed =
        |change: String| DeviceError::Changed { volume: device.volume.clone(), path: device.path.clone(), change };
    let unusable = |source| DeviceError::Unusable { volume: device.volume.clone(), path: device.path.clone(), source };
    let now = std::fs::metadata(&device.path).map_err(|error| changed(error.to_string()))?;
    match os::block_device_number(&now) {
        Some(number) if number == device.number => {}
        Some(number) => return Err(changed(format!("its path leads to device {number}, not {}", device.number))),
        None => return Err(changed("its path does not lead to a block device".to_owned())),
    }
    match identity::of_number(config, device.number).map_err(unusable)? {
        // On Xen, the name is the only identity. It still leads to the same device.
        Some(Identity::Silent) if config.xen => Ok(()),
        Some(Identity::Volume(id)) if id == device.volume => Ok(()),
        Some(other) => Err(changed(format!("it is now {other}"))),
        None => Err(changed("it has disappeared".to_owned())),
    }
}

/// Opens the device with this number if its disk is the volume or, on Xen, reports no identity.
pub(super) fn open_number(
    config: &MounterConfig,
    volume: &VolumeId,
    number: DeviceNumber,
) -> Result<Device, DeviceError> {
    let place = identity::place(config, number);
    let unusable =
        |path: &Path, source| DeviceError::Unusable { volume: volume.clone(), path: path.to_owned(), source };
    let directory = place.canonicalize().map_err(|error| unusable(&place, error.into()))?;
    let path = config.dev.join(directory.file_name().unwrap_or_default());
    let missing = || unusable(&path, IdentityError::NotABlockDevice);
    let check_identity = || -> Result<(), DeviceError> {
        match identity::of_number(config, number).map_err(|source| unusable(&path, source))? {
            Some(Identity::Volume(found)) if found == *volume => Ok(()),
            Some(Identity::Silent) if config.xen => Ok(()),
            other => {
                let found =
                    other.map_or_else(|| "a device that has disappeared".to_owned(), |identity| identity.to_string());
                Err(DeviceError::Foreign { volume: volume.clone(), path: path.clone(), found })
            }
        }
    };
    check_identity()?;
    let Opened { path: _, file, number: opened } =
        opened(&path).map_err(|source| unusable(&path, source))?.ok_or_else(missing)?;
    let disk = disk_number(config, number).map_err(|error| unusable(&path, error.into()))?.ok_or_else(missing)?;
    if opened != number {
        let found = format!("device {opened}");
        return Err(DeviceError::Foreign { volume: volume.clone(), path, found });
    }
    // The open descriptor now reserves the number, so the identity behind it can no longer change.
    check_identity()?;
    Ok(Device { volume: volume.clone(), path, number, disk, file: Held::new(file) })
}

pub(super) fn disk_number(config: &MounterConfig, number: DeviceNumber) -> io::Result<Option<DeviceNumber>> {
    let Some(disk) = identity::disk(config, number)? else { return Ok(None) };
    Ok(identity::attribute(&disk.join("dev"))?.as_deref().and_then(DeviceNumber::parse))
}

#[cfg(test)]
mod tests;

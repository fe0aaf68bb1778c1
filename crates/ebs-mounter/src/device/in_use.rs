//! Finds the disks at the driver's volume paths. Accesses no path of a volume, so a hung disk does not affect it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use ebs_ec2::VolumeId;

use super::find::open_node;
use super::identity::{self, Identity, IdentityError};
use crate::config::MounterConfig;
use crate::mountinfo::{MountEntry, MountTable, as_in_table};
use crate::os::{self, DeviceNumber};

/// The kubelet's directory of published raw block volumes, next to the directories of the CSI drivers.
const RAW_VOLUMES: &str = "volumeDevices";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    below: BTreeSet<PathBuf>,
    at: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsedDisk {
    pub(crate) number: DeviceNumber,
    pub(crate) node: PathBuf,
}

/// How a mount table line identifies the device of a mount.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Number(DeviceNumber),
    Name(OsString),
}

impl Places {
    /// Selects the given paths and the paths below an absolute prefix (`--csi-mount-point-prefix`). If the prefix is
    /// directly below the kubelet's `kubernetes.io/csi`, also selects the adjacent directory of raw block volumes.
    pub(crate) fn new(prefix: Option<&Path>, at: impl IntoIterator<Item = PathBuf>) -> Self {
        let prefix = prefix.filter(|prefix| prefix.is_absolute()).map(cleaned);
        let raw = prefix.as_deref().and_then(Path::parent).filter(|parent| parent.ends_with("kubernetes.io/csi"));
        let raw = raw.map(|parent| parent.join(RAW_VOLUMES));
        Self { below: prefix.into_iter().chain(raw).collect(), at: at.into_iter().collect() }
    }

    /// Also adds each path as the mount table shows it, with links resolved. Accesses only the directories above the
    /// paths.
    pub(crate) fn with_links_resolved(self) -> Self {
        let below = self.below.iter().filter_map(|path| path.canonicalize().ok());
        let below: Vec<PathBuf> = below.collect();
        let at: Vec<PathBuf> = self.at.iter().map(|path| as_in_table(path)).collect();
        Self { below: self.below.into_iter().chain(below).collect(), at: self.at.into_iter().chain(at).collect() }
    }

    fn contains(&self, target: &Path) -> bool {
        let is_below = |above: &PathBuf| target != above && target.starts_with(above);
        self.at.contains(target) || self.below.iter().any(is_below)
    }
}

fn cleaned(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::from("/"), |mut clean, component| {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => drop(clean.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
        clean
    })
}

fn named(table: &MountTable, places: &Places) -> BTreeSet<Named> {
    table.entries().iter().filter(|entry| places.contains(&entry.target)).filter_map(device_of).collect()
}

fn device_of(entry: &MountEntry) -> Option<Named> {
    if entry.device.major != 0 {
        return Some(Named::Number(entry.device));
    }
    // For a raw block volume, the root of the mount names the `/dev` node. For other mounts without a device number,
    // the source names it.
    let node = match entry.fs_type.as_str() {
        "devtmpfs" | "tmpfs" => entry.root.strip_prefix("/").ok(),
        _ => Path::new(&entry.source).strip_prefix("/dev").ok(),
    };
    let name = node?.as_os_str();
    is_name(name).then(|| Named::Name(name.to_owned()))
}

/// True if the name is a single path component, so that it cannot lead to another directory.
fn is_name(name: &OsStr) -> bool {
    let mut components = Path::new(name).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name)
}

/// Returns the disks at these places, except those that are certainly not EBS volumes or have no statistics.
pub(crate) fn disks_in_use(
    config: &MounterConfig,
    table: &MountTable,
    places: &Places,
) -> (Vec<UsedDisk>, Vec<IdentityError>) {
    let (mut disks, mut failed) = (BTreeMap::new(), Vec::new());
    for named in named(table, places) {
        match disk_of(config, &named) {
            Ok(Some(disk)) => drop(disks.insert(disk.number, disk)),
            Ok(None) => {}
            Err(error) => failed.push(error),
        }
    }
    (disks.into_values().collect(), failed)
}

fn disk_of(config: &MounterConfig, named: &Named) -> Result<Option<UsedDisk>, IdentityError> {
    let number = match named {
        Named::Number(number) => Some(*number),
        Named::Name(name) => number_at(&config.sys.join("class/block").join(name))?,
    };
    let Some(number) = number else { return Ok(None) };
    let Some(place) = identity::disk(config, number)? else { return Ok(None) };
    match identity::in_sysfs(config, &place)? {
        Some(Identity::Volume(_)) | None => {}
        Some(Identity::Other(_) | Identity::Silent) => return Ok(None),
    }
    let Some(number) = number_at(&place)? else { return Ok(None) };
    Ok(place.file_name().map(|name| UsedDisk { number, node: config.dev.join(name) }))
}

fn number_at(place: &Path) -> io::Result<Option<DeviceNumber>> {
    Ok(identity::attribute(&place.join("dev"))?.as_deref().and_then(DeviceNumber::parse))
}

/// Opens a disk for reading and reads its volume id. Returns `None` if the disk no longer exists or is not a volume.
pub(crate) fn open_volume(config: &MounterConfig, disk: &UsedDisk) -> Result<Option<(VolumeId, File)>, IdentityError> {
    let Some(opened) = open_node(&disk.node)? else { return Ok(None) };
    let number = os::block_device_number(&opened.metadata()?);
    if number != Some(disk.number) {
        return Ok(None);
    }
    // The open descriptor now reserves the number, so the identity behind it can no longer change.
    let Some(place) = identity::disk(config, disk.number)? else { return Ok(None) };
    match identity::of_disk(config, &place, || opened.try_clone())? {
        Identity::Volume(volume) => Ok(Some((volume, opened))),
        Identity::Other(_) | Identity::Silent => Ok(None),
    }
}

#[cfg(test)]
mod tests;

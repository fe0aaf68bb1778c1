//! Reads the identity that a disk, or the multipath map over it, reports (`docs/dev/decisions/0017-identify-a-disk-by-its-serial-number.md`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use ebs_ec2::VolumeId;

use super::vanished;
use crate::bounded::Stuck;
use crate::config::MounterConfig;
use crate::os::{self, DeviceNumber, if_exists};

/// The identity of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    Volume(VolumeId),
    /// The disk is something else, which the text describes.
    Other(String),
    /// Disks of this kind report no identity, as on Xen. Only the name that EC2 reports identifies them.
    Silent,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(id) => write!(f, "volume {id}"),
            Self::Other(what) => f.write_str(what),
            Self::Silent => f.write_str("a disk without a serial number"),
        }
    }
}

/// Why a disk could not be identified.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("it is not a block device")]
    NotABlockDevice,
    #[error("it leads to {0}, outside of the device directory")]
    Elsewhere(PathBuf),
    #[error("its NVMe controller reports no serial number")]
    NoSerial,
    #[error("it cannot be identified")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

pub(super) fn place(config: &MounterConfig, number: DeviceNumber) -> PathBuf {
    config.sys.join("dev/block").join(number.to_string())
}

/// Returns the sysfs directory of the whole disk with this number. `None` proves that the device does not exist.
pub(super) fn disk(config: &MounterConfig, number: DeviceNumber) -> io::Result<Option<PathBuf>> {
    let directory = match place(config, number).canonicalize() {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if vanished::has_vanished(config, number)? {
                return Ok(None);
            }
            return Err(io::Error::other(format!(
                "device {number} is listed in sysfs, but its directory is missing: {error}"
            )));
        }
        Err(error) => return Err(error),
    };
    if directory.join("partition").try_exists()? {
        return Ok(directory.parent().map(Path::to_owned));
    }
    Ok(Some(directory))
}

pub(super) fn of_number(config: &MounterConfig, number: DeviceNumber) -> Result<Option<Identity>, IdentityError> {
    let Some(disk) = disk(config, number)? else { return Ok(None) };
    let open = || File::open(config.dev.join(disk.file_name().unwrap_or_default()));
    of_disk(config, &disk, open).map(Some)
}

/// Returns the identity of the disk at a sysfs path. If sysfs has no serial number, queries the controller.
pub(super) fn of_disk(
    config: &MounterConfig,
    disk: &Path,
    open: impl FnOnce() -> io::Result<File>,
) -> Result<Identity, IdentityError> {
    match in_sysfs(config, disk)? {
        Some(identity) => Ok(identity),
        // A device that does not support this NVMe request counts as one without a serial number.
        None => of_answer(os::nvme_serial(&open()?)),
    }
}

fn of_answer(serial: io::Result<String>) -> Result<Identity, IdentityError> {
    match serial {
        Ok(serial) if !serial.is_empty() => Ok(of_serial(&serial)),
        _ => Err(IdentityError::NoSerial),
    }
}

/// Reads only sysfs, never the disk. Returns `None` for an NVMe disk without a serial number in sysfs.
pub(super) fn in_sysfs(config: &MounterConfig, disk: &Path) -> Result<Option<Identity>, IdentityError> {
    let name = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(backing) = attribute(&disk.join("loop/backing_file"))? {
        return Ok(Some(of_backing_file(config, Path::new(&backing))));
    }
    if name.starts_with("nvme") {
        return Ok(attribute(&disk.join("device/serial"))?.map(|serial| of_serial(&serial)));
    }
    if name.starts_with("xvd") || name.starts_with("sd") {
        return Ok(Some(Identity::Silent));
    }
    if is_mapped(&name) {
        return Ok(Some(of_map(config, disk)?));
    }
    Ok(Some(Identity::Other(format!("{name}, which is not an EBS volume"))))
}

pub(super) fn of_serial(serial: &str) -> Identity {
    VolumeId::from_serial(serial)
        .map_or_else(|_| Identity::Other(format!("a disk with serial number {serial:?}")), Identity::Volume)
}

/// Returns the identity of a simulated disk: a loop device over `<volume id>.img` in the configured directory.
fn of_backing_file(config: &MounterConfig, backing: &Path) -> Identity {
    let other = || Identity::Other(format!("a loop device over {}", backing.display()));
    let Some(directory) = &config.simulated_devices else { return other() };
    let Ok(directory) = directory.canonicalize() else { return other() };
    if !backing.starts_with(&directory) || backing.extension().is_none_or(|extension| extension != "img") {
        return other();
    }
    let id = backing.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| VolumeId::parse(stem).ok());
    id.map_or_else(other, Identity::Volume)
}

/// Returns a sysfs attribute without surrounding white space, or `None` if the file does not exist or is empty.
pub(crate) fn attribute(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // A loop device without a file (ENXIO), or a device that is being removed (ENODEV).
        Err(error) if matches!(error.raw_os_error(), Some(6 | 19)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Prefix of the uuid of a map that `multipathd` made.
const MULTIPATH: &str = "mpath-";

fn is_mapped(name: &str) -> bool {
    name.starts_with("dm-")
}

/// Returns the identity of a mapped device. A multipath map is a volume if all its paths are that volume. Other mapped
/// devices (encryption, LVM, snapshots) show different bytes from the disk below, so they are never the volume.
fn of_map(config: &MounterConfig, device: &Path) -> io::Result<Identity> {
    let name = device.file_name().unwrap_or_default().display();
    let other = |what: &str| Ok(Identity::Other(format!("{name}, {what}")));
    if !is_multipath(device)? {
        return other("a mapped device, not an EBS volume itself");
    }
    let mut found: Option<Identity> = None;
    for path in names(&device.join("slaves"))? {
        let serial = attribute(&config.sys.join("block").join(path).join("device/serial"))?;
        let Some(Identity::Volume(volume)) = serial.map(|serial| of_serial(&serial)) else {
            return other("a multipath device over something other than EBS volumes");
        };
        let volume = Identity::Volume(volume);
        match &found {
            Some(before) if *before != volume => return other("a multipath device over more than one volume"),
            _ => found = Some(volume),
        }
    }
    found.map_or_else(|| other("a multipath device without paths"), Ok)
}

pub(super) fn map_over(disk: &Path) -> io::Result<Option<PathBuf>> {
    let holders = disk.join("holders");
    for name in names(&holders)? {
        if name.to_str().is_some_and(is_mapped) && is_multipath(&holders.join(&name))? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn is_multipath(device: &Path) -> io::Result<bool> {
    Ok(attribute(&device.join("dm/uuid"))?.is_some_and(|uuid| uuid.starts_with(MULTIPATH)))
}

/// Returns the paths in a sysfs directory, or an empty list if it does not exist.
fn names(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(entries) = if_exists(fs::read_dir(directory))? else { return Ok(Vec::new()) };
    entries.map(|entry| Ok(entry?.file_name().into())).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn nvme_controller_is_identified_by_the_serial_of_its_volume() {
        let volume = VolumeId::parse("vol-0123456789abcdef0").unwrap();
        assert_eq!(of_answer(Ok(volume.serial())).unwrap(), Identity::Volume(volume));
        for nothing in [Ok(String::new()), Err(io::Error::other("not an NVMe disk"))] {
            let outcome = of_answer(nothing);
            assert!(matches!(outcome, Err(IdentityError::NoSerial)), "{outcome:?}");
        }
    }

    #[test]
    fn missing_sysfs_attribute_is_empty_but_failed_read_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("serial");
        assert_eq!(attribute(&place).unwrap(), None);
        fs::write(&place, " vol0123 \n").unwrap();
        assert_eq!(attribute(&place).unwrap().as_deref(), Some("vol0123"));
        fs::write(&place, " \n").unwrap();
        assert_eq!(attribute(&place).unwrap(), None);
        // Opening a socket fails with ENXIO, like opening a device that is being removed.
        let socket = directory.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(attribute(&socket).unwrap(), None);
        assert!(attribute(directory.path()).is_err());
    }

    #[test]
    fn identity_describes_a_disk_that_is_not_a_volume() {
        let directory = tempfile::tempdir().unwrap();
        let config = MounterConfig { sys: directory.path().to_owned(), ..MounterConfig::new(directory.path()) };
        for (name, kind) in [("vda", "not an EBS volume"), ("dm-3", "a mapped device")] {
            let place = directory.path().join(name);
            fs::create_dir(&place).unwrap();
            let found = in_sysfs(&config, &place).unwrap().unwrap().to_string();
            assert!(found.starts_with(name) && found.contains(kind), "{found}");
        }
        assert_eq!(in_sysfs(&config, &directory.path().join("sdf")).unwrap(), Some(Identity::Silent));
    }

    #[test]
    fn unreadable_directory_is_an_error_instead_of_empty() {
        let directory = tempfile::tempdir().unwrap();
        assert!(names(&directory.path().join("missing")).unwrap().is_empty());
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(names(&file).is_err());
    }
}

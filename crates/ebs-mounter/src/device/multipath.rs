//! Disks that `multipathd` has claimed. The kernel rejects their use, so the driver uses the multipath map.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::identity::{Identity, attribute, of_serial};
use crate::config::MounterConfig;
use crate::os::if_exists;

/// Prefix of the uuid of a map that `multipathd` made.
const MULTIPATH: &str = "mpath-";

pub(super) fn is_mapped(name: &str) -> bool {
    name.starts_with("dm-")
}

/// Returns the identity of a mapped device. A multipath map is a volume if all its paths are that volume. Other mapped
/// devices (encryption, LVM, snapshots) show different bytes from the disk below, so they are never the volume.
pub(super) fn identity(config: &MounterConfig, device: &Path) -> io::Result<Identity> {
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
    use super::*;

    #[test]
    fn unreadable_directory_is_an_error_instead_of_empty() {
        let directory = tempfile::tempdir().unwrap();
        assert!(names(&directory.path().join("missing")).unwrap().is_empty());
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(names(&file).is_err());
    }
}

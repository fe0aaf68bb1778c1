//! Proves that a device has vanished: sysfs lists other block devices, which every machine has, but not this one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::MounterConfig;
use crate::os::{DeviceNumber, if_exists};

/// A sysfs that does not list the block devices of this machine.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} lists no block device, so the driver cannot examine any disk; mount sysfs at {} (a container needs the host's \
     /sys)",
    list.display(), sys.display()
)]
pub struct NoSysfs {
    list: PathBuf,
    sys: PathBuf,
    source: Option<io::Error>,
}

/// Returns the names (`major:minor`) of all block devices; never empty.
pub(crate) fn listed(sys: &Path) -> Result<BTreeSet<OsString>, NoSysfs> {
    let list = sys.join("dev/block");
    let names = std::fs::read_dir(&list)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<_>>());
    let without = |source| NoSysfs { list: list.clone(), sys: sys.to_owned(), source };
    match names {
        Ok(names) if BTreeSet::is_empty(&names) => Err(without(None)),
        Ok(names) => Ok(names),
        Err(error) => Err(without(Some(error))),
    }
}

/// True if it is proven that no block device has this number. Two checks of both the whole list and the device's own
/// entry must find no device: a list that is read while devices appear and vanish may miss a device.
pub(super) fn has_vanished(config: &MounterConfig, number: DeviceNumber) -> io::Result<bool> {
    let (name, place) = (OsString::from(number.to_string()), super::identity::place(config, number));
    for _check in 0..2 {
        let is_listed = listed(&config.sys).map_err(io::Error::other)?.contains(&name);
        if is_listed || if_exists(place.symlink_metadata())?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

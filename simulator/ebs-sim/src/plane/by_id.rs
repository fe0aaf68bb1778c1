//! The links that udev would create for EBS volumes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const PREFIX: &str = "nvme-Amazon_Elastic_Block_Store_";

/// `/dev/disk/by-id`, or the directory that replaces it in a test.
#[derive(Debug)]
pub(super) struct ById {
    dir: PathBuf,
}

impl ById {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    fn link(&self, volume: &str) -> PathBuf {
        self.dir.join(format!("{PREFIX}{}", volume.replace('-', "")))
    }

    /// Creates a volume's link, or redirects it to another device.
    pub(super) fn point(&self, volume: &str, device: &str) -> io::Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        let link = self.link(volume);
        let new = self.dir.join(format!(".{volume}.new"));
        remove(&new)?;
        // Use relative paths to /dev, as udev does. A test's own directory is elsewhere and needs absolute paths.
        let dev = if self.dir == Path::new("/dev/disk/by-id") { "../.." } else { "/dev" };
        symlink(Path::new(dev).join(device), &new)?;
        std::fs::rename(&new, &link)
    }

    pub(super) fn remove(&self, volume: &str) -> io::Result<()> {
        remove(&self.link(volume))
    }

    /// Removes only the links to these devices (such as `loop3`) and the links of these volumes.
    pub(super) fn sweep(&self, devices: &BTreeSet<String>, volumes: &BTreeSet<String>) -> io::Result<()> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        let ours: BTreeSet<PathBuf> = volumes.iter().map(|v| self.link(v)).collect();
        for entry in entries {
            let path = entry?.path();
            let is_volume = path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(PREFIX));
            let Some(target) = std::fs::read_link(&path).ok().filter(|_| is_volume) else { continue };
            let device = target.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if ours.contains(&path) || devices.contains(device) {
                remove(&path)?;
            }
        }
        Ok(())
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

//! Directories in place of /dev and /sys, for tests.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use ebs_ec2::VolumeId;
use ebs_testkit::loop_device::LoopDevice;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::config::MounterConfig;
use crate::os::DeviceNumber;

pub(crate) struct Machine {
    _directory: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

impl Machine {
    /// Creates a machine with one disk, because a sysfs without disks proves nothing.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["dev/disk/by-id", "sys/block", "sys/dev/block/8:0", "state"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        Self { _directory: directory, root }
    }

    pub(crate) fn config(&self) -> MounterConfig {
        let (dev, sys) = (self.root.join("dev"), self.root.join("sys"));
        MounterConfig { dev, sys, late_device: Duration::ZERO, ..MounterConfig::new(self.root.join("state")) }
    }

    pub(crate) fn entry(&self, number: DeviceNumber) -> PathBuf {
        self.root.join("sys/dev/block").join(number.to_string())
    }

    /// Adds a disk with this name and number to sysfs, and returns its directory.
    pub(crate) fn list(&self, name: &str, number: DeviceNumber) -> PathBuf {
        let place = self.root.join("sys/devices").join(name);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("dev"), format!("{number}\n")).unwrap();
        symlink(&place, self.entry(number)).unwrap();
        place
    }

    pub(crate) fn add_node(&self, name: &str, device: u64) {
        mknodat(CWD, self.root.join("dev").join(name), FileType::BlockDevice, Mode::RUSR, device).unwrap();
    }

    /// Adds an NVMe disk with this name. Its device node leads to a loop device.
    pub(crate) fn add_nvme(&self, name: &str, volume: &VolumeId, disk: &LoopDevice) {
        let raw = std::fs::metadata(disk.path()).unwrap().rdev();
        let place = self.list(name, DeviceNumber::of(raw));
        std::fs::create_dir(place.join("device")).unwrap();
        std::fs::write(place.join("device/serial"), volume.serial()).unwrap();
        symlink(&place, self.root.join("sys/block").join(name)).unwrap();
        self.add_node(name, raw);
    }
}

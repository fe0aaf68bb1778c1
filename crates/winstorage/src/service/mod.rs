//! The operations, each one function, independent of the version of the API that asked.
//!
//! What a client wrote comes in as text or number and is parsed and checked here, in the order and with the texts that clients know;
//! nothing is asked of the host before that. What the host then has to do, and what its answers mean, is decided here too.
//!
//! All functions **block**, some for minutes (a format, a service that stops): call them from threads that may wait, see [`crate::host`].
//! None can be cancelled. What has failed in the middle can be asked for again, and goes on from where it stood.

mod contents;
mod disk;
mod exclusive;
mod file;
mod guard;
mod iscsi;
mod look;
mod mount;
mod proof;
mod remove;
mod resize;
mod services;
mod smb;
mod volume;
mod volume_of_path;
mod walk;

use std::sync::Arc;

use crate::host::Host;
use crate::path::{PathRules, Validation};
use crate::types::WinPath;

pub use crate::host::result::{ACCESS_PATH_IN_USE, DEPENDENTS_RUNNING, STORAGE_BUSY};
pub use crate::types::{DiskIds, DiskLocation};
pub use contents::Contents;
pub use exclusive::{DiskBusy, Waiting};
pub use iscsi::Login;
pub use look::Found;
pub use resize::TOLERANCE;
pub use services::{ServiceInfo, ServiceStatus, StartType};
pub use smb::SmbMapping;
pub use volume::VolumeStats;

/// What the administrator has set.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Every `--working-dir`, and the kubelet's directory.
    pub working_directories: Vec<WinPath>,
    /// `--validate-paths`
    pub validation: Validation,
    /// `--require-privacy`: new SMB mappings are encrypted.
    pub require_privacy: bool,
    /// `--allow-reformat`: PartitionDisk and FormatVolume destroy what is there, as the reference does. Without it, both write only to what they
    /// have read and found blank.
    pub allow_reformat: bool,
}

impl Policy {
    /// The strict one, below these directories.
    #[must_use]
    pub fn new(working_directories: Vec<WinPath>) -> Self {
        Self { working_directories, validation: Validation::Strict, require_privacy: true, allow_reformat: false }
    }
}

/// The storage of one machine.
///
/// Operations that change a disk exclude each other by disk: one that comes meanwhile is refused ([`crate::StorageError::DiskBusy`]), for nothing bounds how
/// long a disk hangs. All others run beside each other.
pub struct Storage {
    host: Arc<dyn Host>,
    paths: PathRules,
    policy: Policy,
    busy: Arc<exclusive::Disks>,
}

impl Storage {
    /// Over `host`, within `policy`.
    #[must_use]
    pub fn new(host: Arc<dyn Host>, policy: Policy) -> Self {
        let paths = PathRules::new(policy.working_directories.clone(), policy.validation);
        Self { host, paths, policy, busy: Arc::default() }
    }

    /// The working directories and how strictly paths are kept in them.
    #[must_use]
    pub fn path_rules(&self) -> &PathRules {
        &self.paths
    }
}

#[cfg(test)]
mod tests;

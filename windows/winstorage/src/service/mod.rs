//! The operations on storage, with one function for each. They do not depend on the version of the API.
//!
//! A client's request arrives as texts and numbers. This module parses and checks them before the first call of the
//! host, with the order and the error texts that clients expect. It also decides the steps, and what the host's results
//! mean.
//!
//! All functions **block**, some for minutes (a format, a service that stops), so call them only from threads that may
//! block, see [`crate::host`]. They cannot be cancelled. A failed operation can be repeated, and continues where it
//! failed.

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

#[derive(Debug, Clone)]
pub struct Policy {
    /// Every `--working-dir`, and the kubelet's directory.
    pub working_directories: Vec<WinPath>,
    pub validation: Validation,
    /// `--require-privacy`: new SMB mappings are encrypted.
    pub require_privacy: bool,
    /// `--allow-reformat`: PartitionDisk and FormatVolume destroy existing contents, as the reference does. Without it,
    /// both write only to disks that they have read and found blank.
    pub allow_reformat: bool,
}

impl Policy {
    pub fn new(working_directories: Vec<WinPath>) -> Self {
        Self { working_directories, validation: Validation::Strict, require_privacy: true, allow_reformat: false }
    }
}

/// The storage of one machine.
///
/// Only one operation at a time can change a disk. A second one fails with [`crate::StorageError::DiskBusy`], because a
/// disk can hang without limit. All other operations run concurrently.
pub struct Storage {
    host: Arc<dyn Host>,
    paths: PathRules,
    policy: Policy,
    busy: Arc<exclusive::Disks>,
}

impl Storage {
    pub fn new(host: Arc<dyn Host>, policy: Policy) -> Self {
        let paths = PathRules::new(policy.working_directories.clone(), policy.validation);
        Self { host, paths, policy, busy: Arc::default() }
    }
}

#[cfg(test)]
mod tests;

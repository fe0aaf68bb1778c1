//! The data plane. It stores the data of volumes and connects volumes to devices of this machine. All functions block.

mod backing;
mod breakable;
mod broken;
mod by_id;
mod copy;
mod loop_plane;
mod losetup;
mod sweep;
mod sysfs;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::config::{Devices, EngineConfig};
use crate::state::{Effect, Outcome};

use loop_plane::LoopPlane;

/// Why the data plane could not be set up.
#[derive(Debug)]
pub(crate) enum PlaneError {
    /// A sentence that describes what the machine or the process lacks.
    Missing(String),
    /// A data directory could not be created.
    Create { path: PathBuf, source: std::io::Error },
}

#[derive(Debug)]
pub(crate) enum Plane {
    None,
    /// Files, with loop devices over them.
    Loop(LoopPlane),
}

impl Plane {
    /// Checks the requirements and creates the directories below `state_dir`, whose path must be resolved.
    pub(crate) fn open(config: &EngineConfig, state_dir: &Path) -> Result<Self, PlaneError> {
        match config.devices {
            Devices::None => Ok(Self::None),
            Devices::Loop => LoopPlane::open(state_dir, &config.by_id_dir).map(Self::Loop),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Removes the leftovers of a previous run in these directories: devices and links of volumes that are not
    /// connected, and data of volumes and snapshots that do not exist.
    pub(crate) fn clean(&self, connected: &BTreeSet<String>, volumes: &BTreeSet<String>, snapshots: &BTreeSet<String>) {
        if let Self::Loop(plane) = self {
            plane.sweep(connected, volumes, snapshots);
        }
    }

    pub(crate) fn carry_out(&self, effect: &Effect) -> Outcome {
        match self {
            Self::None => Outcome::Done(None),
            Self::Loop(plane) => plane.carry_out(effect),
        }
    }

    /// Disconnects all devices. A device in use disappears when its last user closes it.
    pub(crate) fn take_down(&self) -> Result<(), String> {
        match self {
            Self::None => Ok(()),
            Self::Loop(plane) => plane.take_down(),
        }
    }
}

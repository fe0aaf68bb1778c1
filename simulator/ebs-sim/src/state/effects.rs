//! Requests of the state to the data plane, and their results.

use serde::{Deserialize, Serialize};

/// The initial data of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// Zeros.
    Blank,
    /// The data of a snapshot.
    Snapshot(String),
}

/// An action on the data plane. Every effect may be repeated after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Effect {
    /// Create the backing data of a volume.
    CreateBacking { volume: String, gib: u32, source: Source },
    /// Copy a volume's current data into a new volume. The reply waits for it.
    CopyVolume { source: String, volume: String, gib: u32 },
    /// Copy a volume's current data into a snapshot. The reply waits for it.
    CopyToSnapshot { volume: String, snapshot: String },
    /// Make a volume a device, `linked` as by udev, `breakable` if its I/O is going to fail.
    Connect {
        volume: String,
        instance: String,
        linked: bool,
        #[serde(default)]
        breakable: bool,
    },
    /// Disconnect the device, unless it is in use; `force`: even then.
    Disconnect { volume: String, instance: String, force: bool },
    /// Extend a volume and its device.
    Grow { volume: String, gib: u32 },
    /// Remove the device under its users.
    Vanish { volume: String },
    /// Make reads, writes and flushes of a volume fail.
    BreakIo { volume: String },
    /// End I/O failures of a volume.
    HealIo { volume: String },
    /// Remove a volume's data.
    DeleteBacking { volume: String },
    /// Remove a snapshot's data.
    DeleteSnapshotData { snapshot: String },
}

impl Effect {
    /// Returns whether the reply of its call waits for it, because its data must be from the time of the call.
    pub(crate) fn holds_reply(&self) -> bool {
        matches!(self, Self::CopyVolume { .. } | Self::CopyToSnapshot { .. })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// Success. A connect names its device.
    Done(Option<String>),
    /// The device is in use.
    Busy,
    /// Failure, with the reason.
    Failed(String),
}

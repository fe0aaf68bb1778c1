//! The actions that the state requests from the data plane, and their results.

use serde::{Deserialize, Serialize};

/// The initial data of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// Zeros.
    Blank,
    /// The data of a snapshot.
    Snapshot(String),
}

/// An action on the data plane. After a restart, any effect may be executed a second time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Effect {
    /// Create the backing data of a volume.
    CreateBacking { volume: String, gib: u32, source: Source },
    /// Copy a volume's current data into a new volume. The reply waits until the copy is complete.
    CopyVolume { source: String, volume: String, gib: u32 },
    /// Copy a volume's current data into a snapshot. The reply waits until the copy is complete.
    CopyToSnapshot { volume: String, snapshot: String },
    /// Connect a volume to a device. `linked` adds udev's link; `breakable` makes later I/O failures possible.
    Connect {
        volume: String,
        instance: String,
        linked: bool,
        #[serde(default)]
        breakable: bool,
    },
    /// Disconnect the device. A device in use is disconnected only if `force` is true.
    Disconnect { volume: String, instance: String, force: bool },
    /// Extend a volume and its device.
    Grow { volume: String, gib: u32 },
    /// Remove the device while it may be in use.
    Vanish { volume: String },
    /// Make reads, writes and flushes of a volume fail.
    BreakIo { volume: String },
    /// Let reads, writes and flushes of a volume succeed again.
    HealIo { volume: String },
    /// Remove a volume's data.
    DeleteBacking { volume: String },
    /// Remove a snapshot's data.
    DeleteSnapshotData { snapshot: String },
}

impl Effect {
    /// Returns whether the reply to the call must wait for the effect, because the effect must copy the data as it is
    /// at the time of the call.
    pub(crate) fn holds_reply(&self) -> bool {
        matches!(self, Self::CopyVolume { .. } | Self::CopyToSnapshot { .. })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// The effect is complete. The result of `Connect` is the path of the device.
    Done(Option<String>),
    /// The device is in use.
    Busy,
    /// The effect failed for this reason.
    Failed(String),
}

//! What the state asks of the data plane, and how it can end.

use serde::{Deserialize, Serialize};

/// Where the first data of a volume come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// Zeros.
    Blank,
    /// The data of a snapshot.
    Snapshot(String),
}

/// Something to be done on the data plane. Every effect may be repeated after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Effect {
    /// Make the backing data of a volume.
    CreateBacking { volume: String, gib: u32, source: Source },
    /// Copy a volume's data, as they are now, into a new volume. The reply waits for it.
    CopyVolume { source: String, volume: String, gib: u32 },
    /// Copy a volume's data, as they are now, into a snapshot. The reply waits for it.
    CopyToSnapshot { volume: String, snapshot: String },
    /// Make a volume appear as a device of this machine; `linked`: with the link that udev would make; `breakable`: its I/O is
    /// going to fail.
    Connect {
        volume: String,
        instance: String,
        linked: bool,
        #[serde(default)]
        breakable: bool,
    },
    /// Take the device away, unless somebody uses it; by `force` also then.
    Disconnect { volume: String, instance: String, force: bool },
    /// Make a volume, and its device, larger.
    Grow { volume: String, gib: u32 },
    /// Take the device away under its users.
    Vanish { volume: String },
    /// Let reads, writes and flushes of a volume fail.
    BreakIo { volume: String },
    /// End that.
    HealIo { volume: String },
    /// Remove a volume's data.
    DeleteBacking { volume: String },
    /// Remove a snapshot's data.
    DeleteSnapshotData { snapshot: String },
}

impl Effect {
    /// True when the call that caused it is answered only after it: its data are those of the time of the call.
    pub(crate) fn holds_reply(&self) -> bool {
        matches!(self, Self::CopyVolume { .. } | Self::CopyToSnapshot { .. })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// Done; a connect names its device.
    Done(Option<String>),
    /// The device is in use.
    Busy,
    /// It did not work, in words.
    Failed(String),
}

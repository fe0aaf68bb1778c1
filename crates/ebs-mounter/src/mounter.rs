//! The entry point of the crate. Each operation is in the module of its subject.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebs_ec2::VolumeId;

use crate::config::MounterConfig;
use crate::failed_flushes::FailedFlushes;
use crate::path::NodePath;
use crate::register::{Attacher, Register, RegisteredVolume};
use crate::tools::Tools;

/// Disks and mounts of this node. Clones share all state.
#[derive(Debug, Clone)]
pub struct Mounter {
    pub(crate) config: Arc<MounterConfig>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) register: Arc<Register>,
    pub(crate) failed_flushes: Arc<FailedFlushes>,
    /// Volumes whose format record may remain in an unusable state directory. Such a record does not permit formatting.
    pub(crate) ignored_records: Arc<Mutex<BTreeSet<VolumeId>>>,
    pub(crate) has_warned_not_shared: Arc<AtomicBool>,
}

impl Mounter {
    /// True if disks without an identity can be volumes, because the device name from EC2 identifies them (Xen).
    pub fn trusts_silent_disks(&self) -> bool {
        self.config.xen
    }

    /// Returns how many of the driver's volumes were attached when the machine booted.
    pub fn own_volumes_at_boot(&self) -> u32 {
        self.register.own_volumes_at_boot()
    }

    /// Registers a volume at a path and, on Xen, with the device name under which EC2 attached it.
    pub fn register(&self, volume: &VolumeId, attacher: Attacher, at: &NodePath, device: Option<&Path>) {
        self.register.add(volume, attacher, at, device);
    }

    /// Removes a path from the register, whichever volume it belongs to.
    pub fn unregister(&self, at: &NodePath) {
        self.register.remove_path(at);
    }

    /// Removes a volume that this node no longer uses from the register.
    pub fn forget_volume(&self, volume: &VolumeId) {
        self.register.remove_volume(volume);
    }

    /// Returns the device name under which EC2 attached a volume; `None` except on Xen.
    pub fn attached_under(&self, volume: &VolumeId) -> Option<PathBuf> {
        self.register.device_name(volume)
    }

    /// Returns all registered volumes.
    pub fn registered(&self) -> BTreeMap<VolumeId, RegisteredVolume> {
        self.register.volumes()
    }

    /// Waits at most `bound` until all changes of the register are written. Returns false on timeout.
    pub async fn register_written(&self, bound: Duration) -> bool {
        self.register.wait_until_written(bound).await
    }
}

//! Removes leftovers of a previous run with the same state directory. It leaves devices and links of other programs
//! alone.

use std::collections::BTreeSet;

use super::loop_plane::LoopPlane;
use super::sysfs::Connected;

fn volume_of(device: &Connected) -> Option<&str> {
    device.file.file_stem().and_then(|stem| stem.to_str())
}

impl LoopPlane {
    /// Removes devices whose file is in the simulator's directory and whose volume is not connected, the links of these
    /// devices and volumes, and data that belongs to no object. Logs everything that it cannot remove.
    pub(crate) fn sweep(&self, connected: &BTreeSet<String>, volumes: &BTreeSet<String>, snapshots: &BTreeSet<String>) {
        let devices = self.connected().unwrap_or_default();
        let stale: Vec<&Connected> =
            devices.iter().filter(|d| volume_of(d).is_none_or(|id| !connected.contains(id))).collect();
        let names: BTreeSet<String> = stale.iter().map(|d| d.name.clone()).collect();
        let known = self.volumes.ids().unwrap_or_default();
        let loose: BTreeSet<String> = known.union(volumes).filter(|id| !connected.contains(*id)).cloned().collect();
        if let Err(error) = self.by_id.sweep(&names, &loose) {
            tracing::warn!(%error, "failed to remove links of a previous run");
        }
        for device in stale {
            tracing::info!(device = device.name, file = %device.file.display(), "removing a device of a previous run");
            if let Err(error) = self.release(device) {
                tracing::warn!(%error, device = device.name, "failed to remove a device of a previous run");
            }
        }
        if let Err(error) = self.sweep_breakable(|id| connected.contains(id)) {
            tracing::warn!(%error, "failed to remove lower devices of a previous run");
        }
        for (backing, known) in [(&self.volumes, volumes), (&self.snapshots, snapshots)] {
            if let Err(error) = backing.sweep(known) {
                tracing::warn!(%error, "failed to remove data of a previous run");
            }
        }
    }
}

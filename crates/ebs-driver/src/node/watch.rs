//! Checks the health of this node's volumes periodically, because older kubelets do not request it.

use std::collections::BTreeMap;

use ebs_ec2::VolumeId;
use ebs_mounter::{Attacher, MountTable, NodePath};

use super::health::{self, Ailment};
use super::request::Handle;
use super::{LinuxNode, NodeService, error, owner};
use crate::status::{Meaning, chain};
use crate::timeouts;

impl NodeService {
    /// Checks all volumes periodically, until dropped.
    pub async fn watch_health(self) {
        adopt(self.implementation()).await;
        loop {
            self.check_volumes().await;
            tokio::time::sleep(timeouts::HEALTH_INTERVAL).await;
        }
    }

    /// Checks all volumes once, and logs the changes since the last check.
    pub async fn check_volumes(&self) {
        let node = self.implementation();
        let mut found = BTreeMap::new();
        let here = node.mounter.registered();
        node.backlog.retain(|volume| here.contains_key(volume));
        for (volume, registered) in here {
            for path in &registered.paths {
                if let Some(ailment) = check_volume(node, &volume, path).await {
                    found.insert(volume.clone(), (ailment, path.clone()));
                    break;
                }
            }
        }
        let names = found.iter().map(|(volume, (ailment, _))| (volume.clone(), ailment.name())).collect();
        let before = std::mem::replace(&mut *node.unhealthy(), names);
        for (volume, (ailment, path)) in &found {
            if before.get(volume) != Some(&ailment.name()) {
                tracing::warn!(%volume, %path, ?ailment, "volume is unhealthy");
            }
        }
        for volume in before.keys().filter(|volume| !found.contains_key(*volume)) {
            tracing::info!(%volume, "volume is healthy again");
        }
    }

    /// Returns the volumes whose growth failed, or whose file system has been smaller than its disk for more than five
    /// minutes, sorted by ID. Each has the number of bytes on the disk that its file system does not use.
    pub fn volumes_not_grown(&self) -> Vec<(VolumeId, u64)> {
        self.implementation().backlog.reported()
    }

    /// Returns the volumes that the last check found unhealthy, with status and reason as in NodeGetVolumeHealth.
    pub fn unhealthy_volumes(&self) -> Vec<(VolumeId, &'static str, &'static str)> {
        let unhealthy = self.implementation().unhealthy();
        unhealthy.iter().map(|(volume, (status, reason))| (volume.clone(), *status, *reason)).collect()
    }
}

/// Returns the problem of a volume at a registered path, or `None` when it is no longer mounted there.
async fn check_volume(node: &LinuxNode, volume: &VolumeId, path: &NodePath) -> Option<Ailment> {
    match health::problem_at(node, &Handle::Volume(volume.clone()), path).await {
        Ok(ailment) => ailment,
        Err(cause) if error::meaning(&cause) == Meaning::Unavailable => {
            Some(Ailment::inaccessible("NoAnswer", chain(&cause)))
        }
        Err(cause) => {
            tracing::debug!(%volume, %path, error = %chain(&cause), "failed to check the health of the volume");
            None
        }
    }
}

/// Registers volumes that a previous process mounted in the kubelet's directories. Their attacher is unknown.
async fn adopt(node: &LinuxNode) {
    let Ok(table) = MountTable::read().await else { return };
    let registered = node.mounter.registered();
    for entry in table.entries() {
        let path = entry.target.to_string_lossy();
        if !(path.contains("/kubernetes.io/csi/") || path.contains("/kubernetes.io~csi/")) {
            continue;
        }
        // Mounts without a disk, except raw volumes (devtmpfs), are not the driver's, and reading them could hang.
        if entry.device.major == 0 && entry.fs_type != "devtmpfs" {
            continue;
        }
        let Ok(path) = NodePath::parse(&path) else { continue };
        if registered.values().any(|volume| volume.paths.contains(&path)) {
            continue;
        }
        // If the disk does not identify itself, its volume is unknown.
        let Ok(volume) = owner::named_by(&node.mounter, entry).await else { continue };
        node.mounter.register(&volume, Attacher::Other, &path, None);
    }
}

//! Thaws file systems that a program froze and did not thaw, for example a backup hook whose pod ended too early. The
//! kernel keeps a frozen file system in memory even without a mount, and keeps its disk claimed, so the volume could
//! never be detached. Thawing loses nothing: data written before the freeze is on the disk, and the journal protects
//! later writes.

use std::path::Path;

use crate::bounded;
use crate::device::Device;
use crate::mounter::Mounter;
use crate::mountinfo::{MountEntry, MountTable};
use crate::os;
use crate::path::NodePath;

impl Mounter {
    /// Thaws a file system if `entry`, at `at`, is its only mount in this mount table. Returns true if it was frozen. With
    /// more mounts it stays frozen: the program that froze it may still thaw it.
    pub async fn thaw_only_mount(&self, entry: &MountEntry, at: &NodePath) -> bool {
        let is_only = |table: MountTable| {
            let mut mounts = table.of_device(entry.device);
            mounts.next().is_some_and(|mount| mount.id == entry.id) && mounts.next().is_none()
        };
        let is_alone = entry.device.major != 0 && MountTable::read().await.is_ok_and(is_only);
        is_alone && thaw(at.as_path()).await
    }

    /// Thaws a file system that was frozen before it was mounted at `at`, unless it has another mount. Logs a failure.
    pub async fn thaw_new_mount(&self, device: &Device, at: &NodePath) {
        let is_alone = MountTable::read().await.is_ok_and(|table| table.of_device(device.number()).count() == 1);
        if is_alone && thaw(at.as_path()).await {
            tracing::warn!(
                volume = %device.volume(), path = %at,
                "thawed a file system that was already frozen when it was mounted"
            );
        }
    }
}

pub(super) async fn thaw_before_last_unmount(table: &MountTable, entry: &MountEntry, at: &Path) -> bool {
    let is_last = entry.device.major != 0 && table.of_device(entry.device).count() == 1;
    let thawed = is_last && thaw(at).await;
    if thawed {
        tracing::warn!(
            path = %at.display(), device = %entry.device,
            "thawed a frozen file system before its last unmount"
        );
    }
    thawed
}

async fn thaw(at: &Path) -> bool {
    let directory = at.to_owned();
    match bounded::changing("thawing", at, move || os::thaw(&directory)).await {
        Ok(thawed) => thawed,
        Err(error) => {
            tracing::warn!(path = %at.display(), %error, "failed to check whether the file system is frozen");
            false
        }
    }
}

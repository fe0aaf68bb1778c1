use csi_proto::csi::volume_health::VolumeHealthEntry;
use csi_proto::csi::{NodeGetVolumeHealthRequest, NodeGetVolumeHealthResponse, VolumeHealth, VolumeHealthErrorType};
use ebs_ec2::VolumeId;
use ebs_mounter::{DeviceQuery, MountEntry, MountTable, NodePath, PathKind};

use super::error::{Cause, NodeError};
use super::owner::{self, Owner, not_published};
use super::request::{Handle, Health};
use super::{LinuxNode, growth, repair};
use crate::rpc::Rpc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ailment {
    /// `Inaccessible` when the data cannot be reached, `Degraded` when the data is readable but writes may fail.
    status: VolumeHealthErrorType,
    reason: &'static str,
    message: String,
}

impl Ailment {
    pub(super) fn inaccessible(reason: &'static str, message: String) -> Self {
        Self { status: VolumeHealthErrorType::Inaccessible, reason, message }
    }

    fn degraded(reason: &'static str, message: String) -> Self {
        Self { status: VolumeHealthErrorType::Degraded, reason, message }
    }

    pub(super) fn name(&self) -> (&'static str, &'static str) {
        let degraded = self.status == VolumeHealthErrorType::Degraded;
        (if degraded { "Degraded" } else { "Inaccessible" }, self.reason)
    }
}

/// Returns the health of the volume. A healthy volume has no entries in the response.
pub(super) async fn run(
    node: &LinuxNode,
    request: &NodeGetVolumeHealthRequest,
) -> Result<NodeGetVolumeHealthResponse, NodeError> {
    let plan = Health::parse(request)?;
    let failed = NodeError::during(Rpc::NodeGetVolumeHealth, &plan.volume, plan.path.as_ref());
    find_problem(node, &plan).await.map_err(failed)
}

async fn find_problem(node: &LinuxNode, plan: &Health) -> Result<NodeGetVolumeHealthResponse, Cause> {
    let ailment = match (&plan.path, &plan.volume) {
        (Some(path), volume) => problem_at(node, volume, path).await?,
        (None, Handle::Volume(volume)) => problem_anywhere(node, volume).await?,
        (None, Handle::NodeLocal(_)) => return Err(not_published("a node-local volume needs a path in the request")),
    };
    if let Some(ailment) = &ailment {
        tracing::warn!(volume = %plan.volume, path = plan.path.as_ref().map(tracing::field::display), ?ailment, "volume is unhealthy");
    }
    let wire = |Ailment { status, reason, message }| VolumeHealthEntry {
        status: status.into(),
        reason: str::to_owned(reason),
        message,
    };
    let health_statuses = ailment.map(wire).into_iter().collect();
    let volume_health = VolumeHealth { volume_id: plan.volume.to_string(), health_statuses };
    Ok(NodeGetVolumeHealthResponse { volume_health: Some(volume_health) })
}

pub(super) async fn problem_at(node: &LinuxNode, volume: &Handle, path: &NodePath) -> Result<Option<Ailment>, Cause> {
    let found = path.kind().await.map_err(Cause::io("examine the volume path"))?;
    let (table, at) = owner::topmost(path).await?;
    let entry = table.topmost(&at).ok_or_else(|| not_published(format!("{found}, where nothing is mounted")))?;
    let owner = owner::of_handle(&node.mounter, entry, volume).await?;
    if let Some(ailment) = examine(node, entry, &owner, &found).await? {
        return Ok(Some(ailment));
    }
    let id = match volume {
        Handle::Volume(volume) => Ok(volume.clone()),
        Handle::NodeLocal(_) => owner::named_by(&node.mounter, entry).await,
    };
    let Ok(id) = id else { return Ok(None) };
    Ok(not_grown(node, &id, entry).await)
}

/// Returns the problem of a file system that is smaller than its disk. Check for more severe problems first.
async fn not_grown(node: &LinuxNode, volume: &VolumeId, entry: &MountEntry) -> Option<Ailment> {
    let message = growth::shortfall(node, volume, entry).await?;
    Some(Ailment::degraded("NotGrown", message))
}

/// Examines the mount first, then the metadata errors that the kernel has recorded, because some kernels stop writing
/// after such an error without showing it in the mount table.
async fn examine(
    node: &LinuxNode,
    entry: &MountEntry,
    owner: &Owner,
    found: &PathKind,
) -> Result<Option<Ailment>, Cause> {
    if let Some(ailment) = diagnose(entry, owner, found) {
        return Ok(Some(ailment));
    }
    let errors = node.mounter.recorded_errors(entry).await;
    let errors = errors.map_err(Cause::io("read the errors that the kernel has recorded"))?;
    Ok(errors.map(|errors| {
        let message = format!(
            "the kernel has recorded errors of the file system since its last check ({errors}) and may have stopped writing; the next NodeStageVolume call checks the file system"
        );
        Ailment::degraded("FileSystemErrors", message)
    }))
}

/// Examines every mounted file system of the volume. A raw block volume is healthy if its device exists.
async fn problem_anywhere(node: &LinuxNode, volume: &VolumeId) -> Result<Option<Ailment>, Cause> {
    let table = MountTable::read().await?;
    let mut is_mounted = false;
    for entry in table.entries().iter().filter(|entry| entry.device.major != 0) {
        // Skip a mount whose disk does not identify itself: it may not be this volume.
        let Ok(Owner::Volume) = owner::owner(&node.mounter, entry, volume).await else { continue };
        let Ok(path) = NodePath::parse(&entry.target.to_string_lossy()) else { continue };
        let found = path.kind().await.map_err(Cause::io("examine a mount of the volume"))?;
        is_mounted = true;
        let ailment = match examine(node, entry, &Owner::Volume, &found).await? {
            None => not_grown(node, volume, entry).await,
            found => found,
        };
        if ailment.is_some() {
            return Ok(ailment);
        }
    }
    if !is_mounted {
        let query = DeviceQuery { volume: volume.clone(), hint: None, partition: None };
        node.mounter.find_now(&query).await?;
    }
    Ok(None)
}

fn diagnose(entry: &MountEntry, owner: &Owner, found: &PathKind) -> Option<Ailment> {
    let inaccessible = |reason, message: String| Some(Ailment::inaccessible(reason, message));
    match owner {
        Owner::Vanished => {
            return inaccessible("DeviceVanished", format!("device {} of the mount no longer exists", entry.device));
        }
        Owner::Other(other) => return inaccessible("ForeignDevice", format!("another device is mounted: {other}")),
        Owner::Volume | Owner::Silent => {}
    }
    if let Some(error) = owner::evidence_of_death(entry, found) {
        return inaccessible("InputOutputError", format!("the file system is unusable: {error}"));
    }
    if repair::turned_read_only(entry) {
        let message = "the kernel turned the file system read-only after errors".to_owned();
        return Some(Ailment::degraded("ReadOnlyAfterErrors", message));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(options: &str, super_options: &str) -> MountEntry {
        let line = format!("36 35 259:2 / /target {options} - ext4 /dev/nvme2n1 {super_options}\n");
        MountTable::parse(line.as_bytes()).entries()[0].clone()
    }

    const DIRECTORY: PathKind = PathKind::Directory { empty: false };

    fn status(entry: &MountEntry, owner: &Owner, found: &PathKind) -> Option<VolumeHealthErrorType> {
        diagnose(entry, owner, found).map(|ailment| ailment.status)
    }

    /// The CSI status is INACCESSIBLE.
    #[test]
    fn vanished_or_foreign_device_is_inaccessible() {
        let entry = entry("rw", "rw");
        for owner in [Owner::Vanished, Owner::Other("volume vol-2".to_owned())] {
            assert_eq!(status(&entry, &owner, &DIRECTORY), Some(VolumeHealthErrorType::Inaccessible));
        }
        let broken = PathKind::DeadMount("input/output error".to_owned());
        assert_eq!(status(&entry, &Owner::Volume, &broken), Some(VolumeHealthErrorType::Inaccessible));
    }

    #[test]
    fn file_system_that_was_shut_down_is_inaccessible() {
        let entry = entry("rw", "rw,shutdown");
        assert_eq!(status(&entry, &Owner::Volume, &DIRECTORY), Some(VolumeHealthErrorType::Inaccessible));
    }

    #[test]
    fn file_system_turned_read_only_by_kernel_is_degraded() {
        for (options, of_file_system) in [("rw,relatime", "ro"), ("rw", "rw,emergency_ro")] {
            let entry = entry(options, of_file_system);
            assert_eq!(status(&entry, &Owner::Volume, &DIRECTORY), Some(VolumeHealthErrorType::Degraded));
        }
    }

    #[test]
    fn mount_requested_read_only_is_healthy() {
        assert_eq!(status(&entry("ro", "ro"), &Owner::Volume, &DIRECTORY), None);
        assert_eq!(status(&entry("rw", "rw"), &Owner::Volume, &DIRECTORY), None);
    }
}

//! Grows file systems to the size of their disks. A failure never prevents the use of a volume: NodeStageVolume only
//! logs it, and NodeExpandVolume returns it.
//!
//! Decision: `docs/dev/decisions/0020-never-let-growth-decide-access.md`.

use std::time::Duration;

use ebs_ec2::{Bytes, Waiters};
use winstorage::service::TOLERANCE;
use winstorage::types::{DiskNumber, VolumeGuid};

use crate::disks::Disks;
use crate::error::{Cause, NodeRefusal, ensure_wanted};
use crate::request::{Expand, Stage};

/// How long NodeStageVolume retries the growth while another service of Windows holds the volume.
const RETRIES_AT_STAGE: Duration = Duration::from_secs(10);
const RETRIES: Duration = Duration::from_secs(60);

/// Grows the file system of a staged volume. The volume is already mounted at its current size.
pub(crate) fn after_mount(disks: &Disks, plan: &Stage, (disk, volume): (DiskNumber, &VolumeGuid), waiters: &Waiters) {
    if let Err(error) = grow(disks, disk, volume, RETRIES_AT_STAGE, waiters) {
        let error = ebs_driver::status::chain(&error);
        tracing::warn!(volume = %plan.volume, %disk, error, "failed to grow the file system to the size of its disk");
    }
}

/// Grows the file system at a path. Returns the new size of the volume in bytes. This is the size of the disk, or of
/// the file system if Windows skipped a small growth.
pub(crate) fn expand(disks: &Disks, plan: &Expand, waiters: &Waiters) -> Result<Bytes, Cause> {
    let (volume, disk) = disks.published(&plan.at.path.to_string(), &plan.at.volume)?;
    let grown = grow(disks, disk, &volume, RETRIES, waiters)?;
    let size = disks.storage.disk_size(disk)?;
    if size < plan.required {
        return Err(NodeRefusal::NotGrown { found: Bytes(size), required: Bytes(plan.required) }.into());
    }
    let usable = match grown {
        Some(grown) => grown,
        None => disks.storage.volume_stats(&volume.to_string())?.total,
    };
    if size > usable.saturating_add(TOLERANCE) {
        tracing::warn!(volume = %plan.at.volume, size, usable, "the file system is smaller than its disk");
        return Ok(Bytes(usable));
    }
    Ok(Bytes(size))
}

/// Grows the file system to its disk, unless only the space for Windows' own tables is left over. Returns the usable
/// size of the volume in bytes, or `None` if no growth was necessary.
///
/// Retries for `patience` while another service of Windows holds the volume.
fn grow(
    disks: &Disks,
    disk: DiskNumber,
    volume: &VolumeGuid,
    patience: Duration,
    waiters: &Waiters,
) -> Result<Option<u64>, Cause> {
    let storage = &disks.storage;
    if let Err(error) = storage.rescan() {
        tracing::warn!(%disk, %error, "failed to rescan before growing");
    }
    let (size, text) = (storage.disk_size(disk)?, volume.to_string());
    let used = storage.volume_stats(&text)?.total;
    if size <= used.saturating_add(TOLERANCE) {
        return Ok(None);
    }
    ensure_wanted(waiters, "growing")?;
    let grown = storage.resize_volume(&text, 0, patience)?;
    tracing::info!(%disk, from = used, to = grown, "file system grown");
    Ok(Some(grown))
}

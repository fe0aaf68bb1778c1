//! NodeExpandVolume: grows the file system at a path to the size of its disk.

use std::time::Duration;

use ebs_types::{Bytes, Waiters};
use winstorage::service::TOLERANCE;

use crate::disks::Disks;
use crate::error::{Cause, Refused};
use crate::request::Expand;
use crate::stage;

/// How long to retry the growth while another service of Windows holds the volume.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the size of the volume afterwards in bytes: the disk's, or the file system's if Windows skipped a small
/// growth.
pub(crate) fn run(disks: &Disks, plan: &Expand, waiters: &Waiters) -> Result<Bytes, Cause> {
    let (volume, disk) = disks.published(&plan.at.path.to_string(), &plan.at.volume)?;
    let grown = stage::grow(disks, disk, &volume, PATIENCE, waiters)?;
    let size = disks.storage.disk_size(disk)?;
    if size < plan.required {
        return Err(Refused::NotGrown { found: Bytes(size), required: Bytes(plan.required) }.into());
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

//! NodeExpandVolume: grows the file system that a path shows to its disk.

use std::time::Duration;

use ebs_types::{Bytes, Waiters};
use winstorage::service::TOLERANCE;

use crate::disks::Disks;
use crate::error::{Cause, Refused};
use crate::request::Expand;
use crate::stage;

/// While another service of Windows holds a volume, its growth is tried again for so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of the volume afterwards: the disk's, or, where Windows left a growth undone for being small, the file system's.
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

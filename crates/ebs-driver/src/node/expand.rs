//! NodeExpandVolume (`node.md` 13): grows the file system that is mounted at a path to its device.

use ebs_mounter::{Found, FsType};
use ebs_types::{Bytes, Waiters};

use super::Inner;
use super::error::{Cause, Refused};
use super::owner::{self, Owner};
use super::request::Expand;

/// The size of the device in bytes afterwards.
pub(super) async fn run(node: &Inner, plan: &Expand, waiters: &Waiters) -> Result<Bytes, Cause> {
    match plan.path.look().await.map_err(Cause::io("looking at the volume path"))? {
        Found::BlockDevice => {
            let size = node.mounter.block_device_size(plan.path.as_path()).await;
            return Ok(Bytes(size.map_err(Cause::io("asking for the size of the device"))?));
        }
        Found::Directory { .. } => {}
        found => return Err(Refused::NotPublished { found: found.to_string() }.into()),
    }
    let (table, at) = owner::topmost(&plan.path).await?;
    let not_published = |found: &str| Cause::Refused(Refused::NotPublished { found: found.to_owned() });
    let entry = table.topmost(&at).ok_or_else(|| not_published("a directory where nothing is mounted"))?;
    match owner::owner(&node.mounter, entry, &plan.volume).await? {
        Owner::Volume | Owner::Silent => {}
        Owner::Vanished => return Err(not_published("a mount whose device has vanished")),
        Owner::Other(found) => return Err(not_published(&found)),
    }
    let fs_type = FsType::parse(&entry.fs_type).map_err(|_| not_published(&entry.fs_type))?;
    let device = node.mounter.open_mounted(&plan.volume, entry.device).await?;
    let size = device.size().await.map_err(Cause::io("asking for the size of the device"))?;
    if entry.is_file_system_read_only() {
        tracing::info!(volume = %plan.volume, "mounted read-only: the file system is left as it is");
        return Ok(size);
    }
    let Some(growth) = node.mounter.growth_of_mounted(&device, &at, fs_type).await? else { return Ok(size) };
    if !node.mounter.can_grow_mounted(fs_type) {
        return Err(Refused::GrowthNeedsPrivilege { growth }.into());
    }
    if !waiters.any() {
        return Err(Cause::Abandoned { before: "growing" });
    }
    node.mounter.grow_mounted(&device, &at, fs_type).await?;
    tracing::info!(volume = %plan.volume, %growth, "file system grown");
    Ok(size)
}

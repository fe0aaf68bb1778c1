//! NodeExpandVolume (`node.md` 13): grows the file system that is mounted at a path to its device.

use ebs_mounter::{Found, FsType};
use ebs_types::{Bytes, Waiters};

use super::Inner;
use super::error::{Cause, Refused};
use super::other_use;
use super::owner::{self, Owner};
use super::request::Expand;

/// The size of the device in bytes afterwards.
pub(super) async fn run(node: &Inner, plan: &Expand, waiters: &Waiters) -> Result<Bytes, Cause> {
    match plan.path.look().await.map_err(Cause::io("looking at the volume path"))? {
        Found::BlockDevice => return raw(node, plan).await,
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
    other_use::refuse_raw_binds(node, device.number(), &at).await?;
    if !waiters.any() {
        return Err(Cause::Abandoned { before: "growing" });
    }
    node.mounter.grow_mounted(&device, &at, fs_type, growth).await?;
    tracing::info!(volume = %plan.volume, %growth, "file system grown");
    Ok(size)
}

/// A raw device follows its volume: there is nothing to grow, and its size is told when it is this volume's.
async fn raw(node: &Inner, plan: &Expand) -> Result<Bytes, Cause> {
    let not_published = |found: String| Cause::Refused(Refused::NotPublished { found });
    let path = plan.path.as_path();
    let number = node.mounter.block_device_at(path).await.map_err(Cause::io("looking at the volume path"))?;
    let number = number.ok_or_else(|| not_published("no block device any more".to_owned()))?;
    match owner::of_device(&node.mounter, number, &plan.volume).await? {
        Owner::Volume | Owner::Silent => {}
        Owner::Vanished => return Err(not_published("a device that has vanished".to_owned())),
        Owner::Other(found) => return Err(not_published(found)),
    }
    let size = node.mounter.block_device_size(path).await;
    Ok(Bytes(size.map_err(Cause::io("asking for the size of the device"))?))
}

//! NodeExpandVolume. Success means that the file system fills the requested size, or is mounted read-only.

use std::path::PathBuf;

use ebs_ec2::{Bytes, VolumeId, Waiters};
use ebs_mounter::{Device, DeviceNumber, FsType, MountEntry, MountTable, PathKind};

use super::LinuxNode;
use super::error::{Cause, NodeRefusal};
use super::growth;
use super::owner::{self, not_published};
use super::repair;
use super::request::Expand;

pub(super) async fn run(node: &LinuxNode, volume: &VolumeId, plan: &Expand, waiters: &Waiters) -> Result<Bytes, Cause> {
    match plan.path.kind().await.map_err(Cause::io("examine the volume path"))? {
        PathKind::BlockDevice => return raw(node, volume, plan, waiters).await,
        PathKind::Directory { .. } => {}
        found => return Err(not_published(found.to_string())),
    }
    let device = node.mounter.open_mounted(volume, mounted(node, volume, plan).await?.entry.device).await?;
    let size = awaited_size(node, plan, &device, waiters).await?;
    // Read the mount table again, because the wait may have been long.
    let mount = mounted(node, volume, plan).await?;
    if mount.entry.device != device.number() {
        return Err(not_published("the mount changed during the call"));
    }
    let place = match mount.writable(device.number()) {
        Writable::At(place) => place,
        Writable::NotAskedFor => {
            tracing::info!(volume = %volume, "skipping growth: the volume is mounted read-only");
            return Ok(size);
        }
        Writable::NoMore => {
            let look = node.mounter.recorded_errors(&mount.entry).await;
            let errors = look.map_err(Cause::io("read the errors that the kernel has recorded"))?;
            return Err(NodeRefusal::CannotGrowReadOnly { errors: errors.map(|errors| errors.to_string()) }.into());
        }
    };
    growth::in_place(node, &device, &place, mount.fs_type, waiters).await?;
    Ok(size)
}

struct Mount {
    table: MountTable,
    entry: MountEntry,
    fs_type: FsType,
}

enum Writable {
    At(PathBuf),
    /// All mounts were requested as read-only.
    NotAskedFor,
    /// The kernel rejects writes, although the file system was mounted for writing.
    NoMore,
}

impl Mount {
    /// Returns the oldest writable mount, which is at the staging path. A tool that hangs at a pod's mount would
    /// prevent the unmount of the pod's mount.
    fn writable(&self, device: DeviceNumber) -> Writable {
        let is_whole = |entry: &&MountEntry| entry.root == self.entry.root || entry.root.as_os_str() == "/";
        let is_seen = |entry: &&MountEntry| self.table.topmost(&entry.target).is_some_and(|top| top.id == entry.id);
        let all = self.table.of_device(device).filter(is_whole).filter(is_seen);
        let mut asked_for = all.chain([&self.entry]).filter(|entry| !entry.is_read_only());
        match asked_for.next() {
            _ if repair::is_emergency(&self.entry) => Writable::NoMore,
            None => Writable::NotAskedFor,
            Some(_) if self.entry.is_file_system_read_only() => Writable::NoMore,
            Some(entry) => Writable::At(entry.target.clone()),
        }
    }
}

async fn mounted(node: &LinuxNode, volume: &VolumeId, plan: &Expand) -> Result<Mount, Cause> {
    let (table, at) = owner::topmost(&plan.path).await?;
    let nothing = || not_published("a directory where nothing is mounted");
    let entry = table.topmost(&at).ok_or_else(nothing)?.clone();
    owner::owner(&node.mounter, &entry, volume).await?.ensure_volume()?;
    let fs_type = FsType::parse(&entry.fs_type).map_err(|_| not_published(entry.fs_type.clone()))?;
    Ok(Mount { table, entry, fs_type })
}

/// Waits until the kernel shows the requested size. Does not wait for a partition, which does not grow with its disk.
/// The wait ends early if no caller waits and another operation needs the volume.
async fn awaited_size(node: &LinuxNode, plan: &Expand, device: &Device, waiters: &Waiters) -> Result<Bytes, Cause> {
    let least = plan.required.filter(|_| !device.is_partition()).unwrap_or_default();
    let size = tokio::select! {
        size = node.mounter.size_of_at_least(device, least) => size,
        () = waiters.superseded() => return Err(Cause::Abandoned { before: "growing" }),
    };
    let size = size.map_err(Cause::io("get the size of the device"))?;
    if size < least { Err(NodeRefusal::NotYetLarge { found: size, wanted: least }.into()) } else { Ok(size) }
}

/// Returns the size of a raw device that is proven to be this volume. A raw device grows with its volume.
async fn raw(node: &LinuxNode, volume: &VolumeId, plan: &Expand, waiters: &Waiters) -> Result<Bytes, Cause> {
    let path = plan.path.as_path();
    let number = node.mounter.block_device_at(path).await.map_err(Cause::io("examine the volume path"))?;
    let number = number.ok_or_else(|| not_published("it is no longer a block device"))?;
    owner::of_device(&node.mounter, number, volume).await?.ensure_volume()?;
    let size = node.mounter.block_device_size(path).await;
    let size = Bytes(size.map_err(Cause::io("get the size of the device"))?);
    if plan.required.is_none_or(|least| size >= least) {
        return Ok(size);
    }
    let device = node.mounter.open_mounted(volume, number).await?;
    awaited_size(node, plan, &device, waiters).await
}

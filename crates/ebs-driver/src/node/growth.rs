//! Grows file systems to the size of their disks. A failed growth never makes a volume unusable: NodeStageVolume mounts
//! the file system as it is, and the driver reports the volume as degraded. NodeExpandVolume returns the error.
//!
//! Decision: `docs/decisions/0020-never-let-growth-decide-access.md`.

use std::io;
use std::path::Path;

use ebs_ec2::{VolumeId, Waiters};
use ebs_mounter::{CheckError, Contents, Device, FsType, GrowError, Growth, Headroom, MountEntry, Superblock};
use tokio::time::Instant;

use super::LinuxNode;
use super::backlog::Failure;
use super::error::{Cause, NodeRefusal};
use super::in_use;
use super::request::Stage;
use super::wanted::ensure_wanted;
use crate::status::chain;

/// Grows an ext file system before its mount, if the kernel would not permit this process to grow it later. Records a
/// failure. Returns an error only for damage that e2fsck does not repair by itself, or when no caller waits.
pub(super) async fn before_mount(
    node: &LinuxNode,
    plan: &Stage,
    device: &Device,
    superblock: &Superblock,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let Superblock::Ext(ext) = superblock else { return Ok(()) };
    if node.mounter.can_grow_mounted(superblock.fs_type()) {
        return Ok(());
    }
    // If the size cannot be read, the attempt after the mount reads it again and reports the error.
    let Ok(headroom) = node.mounter.headroom_of_unmounted(device, superblock).await else { return Ok(()) };
    let Some(growth) = headroom.growth.filter(|growth| may_try(node, &plan.volume, growth)) else { return Ok(()) };
    ensure_wanted(waiters, "growing")?;
    let start = Instant::now();
    match node.mounter.grow_unmounted_ext(device, ext, growth).await {
        Ok(()) => {
            tracing::info!(volume = %plan.volume, %growth, "file system grown before its mount");
            Ok(())
        }
        // A damaged file system must not be mounted, even if the check ran only because of the growth.
        Err(GrowError::Check(damage @ CheckError::Uncorrected(_))) => Err(damage.into()),
        Err(error) => {
            node.backlog.record_attempt(&plan.volume, (growth.from, growth.to), start);
            failed(node, &plan.volume, Some(&headroom), &error.into());
            check_again(node, device, waiters).await
        }
    }
}

/// Returns false if this growth was tried before the volume's last mount, took long and failed recently.
fn may_try(node: &LinuxNode, volume: &VolumeId, growth: &Growth) -> bool {
    let is_due = node.backlog.is_due(volume, (growth.from, growth.to));
    if !is_due {
        tracing::warn!(%volume, %growth, "skipping growth before the mount: the last attempt took a long time and failed");
    }
    is_due
}

/// Checks the file system before the mount if an interrupted growth has marked the superblock.
async fn check_again(node: &LinuxNode, device: &Device, waiters: &Waiters) -> Result<(), Cause> {
    if let Contents::Filesystem(superblock) = node.mounter.probe(device).await? {
        ensure_wanted(waiters, "checking the file system")?;
        node.mounter.check_if_needed(device, &superblock).await?;
    }
    Ok(())
}

/// Grows the staged file system, if it is mounted for writing and the driver supports its type. Records a failure, and
/// returns an error only when no caller is waiting.
pub(super) async fn after_mount(
    node: &LinuxNode,
    plan: &Stage,
    device: &Device,
    fs_type: &str,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let Ok(fs_type) = FsType::parse(fs_type) else { return Ok(()) };
    if plan.options.is_read_only() {
        return Ok(());
    }
    match in_place(node, device, plan.staging.as_path(), fs_type, waiters).await {
        Err(abandoned @ Cause::Abandoned { .. }) => Err(abandoned),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Grows a mounted file system, and records if it is still smaller than its disk. `at` must be a writable mount.
pub(super) async fn in_place(
    node: &LinuxNode,
    device: &Device,
    at: &Path,
    fs_type: FsType,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let outcome = grow_mounted(node, device, at, fs_type, waiters).await;
    match &outcome {
        Ok(()) => node.backlog.record_grown(device.volume()),
        Err(Cause::Abandoned { .. }) => {}
        Err(cause) => {
            // Measure again, because a part of the growth may have succeeded.
            let headroom = node.mounter.headroom_of_mounted(device, at, fs_type).await.ok();
            failed(node, device.volume(), headroom.as_ref(), cause);
        }
    }
    outcome
}

async fn grow_mounted(
    node: &LinuxNode,
    device: &Device,
    at: &Path,
    fs_type: FsType,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let headroom = node.mounter.headroom_of_mounted(device, at, fs_type).await?;
    if let Some(growth) = headroom.growth {
        if !node.mounter.can_grow_mounted(fs_type) {
            return Err(NodeRefusal::GrowthNeedsPrivilege { growth, has_clusters: headroom.has_clusters }.into());
        }
        in_use::refuse_raw_binds(node, device.number(), at).await?;
        refuse_frozen(node, at).await?;
        ensure_wanted(waiters, "growing")?;
        node.mounter.grow_mounted(device, at, fs_type, growth).await?;
        tracing::info!(volume = %device.volume(), %growth, "file system grown");
    }
    match headroom.limit {
        Some(limit) => {
            let size = headroom.growth.map_or(headroom.size, |growth| growth.to);
            Err(NodeRefusal::AtItsLimit { size, device: headroom.device, limit }.into())
        }
        None => Ok(()),
    }
}

/// Refuses to grow a file system that accepts no writes, such as a frozen one: the tool would block the volume until
/// the thaw, and the driver could not stop the tool. Ignores other errors, which the tool reports better.
async fn refuse_frozen(node: &LinuxNode, at: &Path) -> Result<(), Cause> {
    match node.mounter.can_write(at).await {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Cause::io(
            "test whether the file system accepts a write, because a frozen file system cannot grow",
        )(error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn failed(node: &LinuxNode, volume: &VolumeId, headroom: Option<&Headroom>, cause: &Cause) {
    let (size, device) = (headroom.map(|headroom| headroom.size), headroom.map(|headroom| headroom.device));
    let message = chain(cause);
    tracing::warn!(%volume, size, device, error = message, "file system could not grow to its disk's size: using the volume at its present size");
    // An error about the missing privilege explains less than the error of an attempt before the mount.
    let explains_less = matches!(cause, Cause::Refused(NodeRefusal::GrowthNeedsPrivilege { .. }));
    let missing = headroom.map_or(0, Headroom::unused);
    node.backlog.record_failure(volume, Failure { missing, message, explains_less });
}

/// Returns a message for the volume's health if the file system is smaller than its disk.
pub(super) async fn shortfall(node: &LinuxNode, volume: &VolumeId, entry: &MountEntry) -> Option<String> {
    if entry.device.major == 0 || entry.is_read_only() || entry.is_file_system_read_only() {
        return None;
    }
    let fs_type = FsType::parse(&entry.fs_type).ok()?;
    let device = node.mounter.open_mounted(volume, entry.device).await.ok()?;
    let headroom = node.mounter.headroom_of_mounted(&device, &entry.target, fs_type).await.ok()?;
    if headroom.is_used_up() {
        node.backlog.record_grown(volume);
        return None;
    }
    let why = node.backlog.record_seen(volume, headroom.unused())?;
    Some(format!("the file system uses {} of the {} bytes of its disk: {why}", headroom.size, headroom.device))
}

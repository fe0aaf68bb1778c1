//! NodeStageVolume: finds the device, formats it only when that is proven safe, mounts it, and grows the file system.

use ebs_ec2::{Gib, Waiters};
use ebs_mounter::{Contents, Device, DeviceQuery, FormatRecord, MountTable, PathKind, Superblock};
use tokio::time::Instant;

use super::decide::{self, Evidence, Mounted, Plan};
use super::error::{Cause, NodeRefusal};
use super::repair::{self, Check};
use super::request::Stage;
use super::wanted::{ensure_wanted, ensure_wanted_after};
use super::{LinuxNode, growth, in_use, owner};

/// Stages a volume. A previous call may already have completed any of the steps.
pub(super) async fn run(node: &LinuxNode, plan: &Stage, waiters: &Waiters) -> Result<(), Cause> {
    inspect_staging_path(plan).await?;
    let query =
        DeviceQuery { volume: plan.volume.clone(), hint: plan.attachment.device.clone(), partition: plan.partition };
    let device = node.mounter.find(&query).await?;
    let fs_type = match already_staged(node, plan, &device, waiters).await? {
        Some(fs_type) => fs_type,
        None => mount(node, plan, &device, waiters).await?,
    };
    growth::after_mount(node, plan, &device, &fs_type, waiters).await
}

/// Mounts the volume at the staging path, where nothing is mounted yet. Returns the file system's type.
async fn mount(node: &LinuxNode, plan: &Stage, device: &Device, waiters: &Waiters) -> Result<String, Cause> {
    decide::check_mount_point(&inspect_staging_path(plan).await?, false)?;
    ensure_large_enough(device, plan.attachment.size).await?;
    let at = plan.staging.in_table().await.map_err(Cause::io("resolve the path"))?;
    in_use::refuse_raw_binds(node, device.number(), &at).await?;
    let superblock = format_if_blank(node, plan, device, waiters).await?;
    node.mounter.forget_format_if_known(&plan.volume).await?;
    let check = check_and_grow(node, plan, device, &superblock, waiters).await?;
    ensure_wanted(waiters, "mounting")?;
    plan.staging.create_directory().await.map_err(Cause::io("create the staging directory"))?;
    let fs_type = superblock.fs_type();
    repair::mount(node, plan, (device, fs_type), check, waiters).await?;
    node.mounter.thaw_new_mount(device, &plan.staging).await;
    tracing::debug!(volume = %plan.volume, device = %device.path().display(), path = %plan.staging, fs = %fs_type, "staged");
    Ok(fs_type.to_string())
}

/// Refuses a symbolic link at the staging path. Other obstacles matter only when nothing is mounted there.
async fn inspect_staging_path(plan: &Stage) -> Result<PathKind, Cause> {
    let found = plan.staging.kind().await.map_err(Cause::io("examine the staging path"))?;
    if found == PathKind::Symlink {
        return Err(NodeRefusal::Symlink.into());
    }
    Ok(found)
}

/// Returns the file system's type if the volume is staged as requested. Unmounts a dead or unchecked file system.
async fn already_staged(
    node: &LinuxNode,
    plan: &Stage,
    device: &Device,
    waiters: &Waiters,
) -> Result<Option<String>, Cause> {
    owner::clear_vanished(node, &plan.volume, &plan.staging, waiters).await?;
    let (table, at) = owner::topmost(&plan.staging).await?;
    let entry = table.topmost(&at);
    if let Some(entry) = entry.filter(|entry| entry.device == device.number())
        && let Some(error) = owner::evidence_of_death(entry, &inspect_staging_path(plan).await?)
    {
        owner::clear_dead(node, device, &plan.staging, error, waiters).await?;
        return Ok(None);
    }
    let mounted = decide::staged(entry, device.number(), plan.fs_type, &node.mounter.effective(&plan.options))?;
    if mounted == Mounted::No || repair::clear_unchecked(node, plan, device, waiters).await? {
        return Ok(None);
    }
    Ok(entry.map(|entry| entry.fs_type.clone()))
}

/// Refuses a device that is smaller than the volume was when it was attached: it cannot be the whole volume.
pub(super) async fn ensure_large_enough(device: &Device, promised: Option<Gib>) -> Result<(), Cause> {
    let Some(promised) = promised else { return Ok(()) };
    let found = device.size().await.map_err(Cause::io("get the size of the device"))?;
    if found < promised.bytes() && !device.is_partition() {
        return Err(NodeRefusal::TooSmall { found, promised }.into());
    }
    Ok(())
}

/// Returns the superblock of the file system to mount. First formats the device if that is needed and permitted.
async fn format_if_blank(
    node: &LinuxNode,
    plan: &Stage,
    device: &Device,
    waiters: &Waiters,
) -> Result<Superblock, Cause> {
    let began = Instant::now();
    let contents = node.mounter.probe(device).await?;
    let record = record(node, plan, device).await?;
    let left_behind = node.mounter.interrupted_format(device).await;
    let is_read_only_disk = device.is_read_only().await.map_err(Cause::io("check whether the device is read-only"))?;
    let partitions = match contents {
        Contents::Foreign { .. } => node.mounter.partitions(device).await.map_err(Cause::io("list the partitions"))?,
        Contents::Blank(_) | Contents::Filesystem(_) | Contents::Data { .. } => Vec::new(),
    };
    let evidence = Evidence {
        contents: &contents,
        partitions: &partitions,
        asked: plan.fs_type,
        record: &record,
        left_behind: left_behind.as_ref(),
        restored_from: plan.attachment.restored_from(),
        may_format_restored: plan.may_format_restored,
        read_only: plan.options.is_read_only() || is_read_only_disk,
    };
    let permit = match decide::contents(&evidence)? {
        Plan::Mount(superblock) => return Ok(superblock),
        Plan::Format(permit) => permit,
    };
    ensure_wanted_after(waiters, began.elapsed(), "formatting").await?;
    node.mounter.format(device, &plan.format, &record, permit).await?;
    match node.mounter.probe(device).await? {
        Contents::Filesystem(made) if made.is_complete() && record.fs_type.accepts(made.fs_type()) => Ok(made),
        other => Err(NodeRefusal::FormatLeft { contents: other.to_string(), asked: record.fs_type }.into()),
    }
}

async fn record(node: &LinuxNode, plan: &Stage, device: &Device) -> Result<FormatRecord, Cause> {
    let (fs_type, attach_time) = (plan.format.fs_type, plan.attachment.attach_time);
    let attach_time = attach_time.map(|time| humantime::format_rfc3339(time).to_string());
    let record = node.mounter.format_record(device, fs_type, plan.partition, attach_time).await;
    record.map_err(Cause::io("identify this attachment"))
}

/// Checks a file system before its mount, and grows it if the kernel would not permit growth after the mount.
async fn check_and_grow(
    node: &LinuxNode,
    plan: &Stage,
    device: &Device,
    superblock: &Superblock,
    waiters: &Waiters,
) -> Result<Check, Cause> {
    let is_read_only_disk = device.is_read_only().await.map_err(Cause::io("check whether the device is read-only"))?;
    if plan.options.is_read_only() || is_read_only_disk {
        return Ok(Check::Possible);
    }
    if MountTable::read().await?.of_device(device.number()).next().is_some() {
        // A tool must not write to a device that is mounted elsewhere.
        return Ok(Check::Possible);
    }
    ensure_wanted(waiters, "checking the file system")?;
    let check = repair::check_if_needed(node, plan, device, superblock).await?;
    if check == Check::Possible {
        growth::before_mount(node, plan, device, superblock, waiters).await?;
    }
    Ok(check)
}

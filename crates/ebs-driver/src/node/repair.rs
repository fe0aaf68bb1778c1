//! Repairs file systems when they are staged. Repairs damage for which the kernel refuses a mount, errors that the
//! mount finds, and errors that the kernel recorded, or for which it turned the file system read-only, while no pod
//! used the volume. e2fsck makes only repairs that no person has to decide.
//!
//! Decision: `docs/decisions/0021-repair-only-what-needs-no-decision.md`.

use ebs_ec2::Waiters;
use ebs_mounter::{
    CheckError, Device, FsType, Hold, MountEntry, MountError, MountTable, NodePath, Superblock, Suspicion, UnmountError,
};

use super::LinuxNode;
use super::dead_mounts;
use super::error::{Cause, NodeRefusal};
use super::in_use;
use super::owner;
use super::request::Stage;
use super::wanted::ensure_wanted;
use crate::status::chain;

enum MountAttempt {
    Mounted,
    /// The kernel refused the mount, and a check may repair the file system.
    Refused {
        error: MountError,
        suspicion: Suspicion,
    },
    /// The file system is mounted, but its superblock records errors that need a check.
    WithErrors,
}

/// Whether e2fsck can check a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Possible,
    /// The file system needs a check, but e2fsck cannot start. That does not prove damage.
    Impossible,
}

/// Checks an ext file system that is not mounted here, if its superblock or journal demands it. If e2fsck cannot run,
/// the kernel decides whether it mounts the file system. The superblock then stays marked: the volume's health reports
/// it, and the next NodeStageVolume call tries again.
///
/// Cancellation: a check that has started runs to its end.
///
/// # Errors
/// - e2fsck does not repair the damage by itself.
/// - A signal ended the check: e2fsck may have written a part of a repair, and the kernel would mount the result.
/// - The check could not run, and an interrupted growth may have set the mark: the kernel would mount a file system
///   that resize2fs has moved in part.
pub(super) async fn check_if_needed(
    node: &LinuxNode,
    plan: &Stage,
    device: &Device,
    superblock: &Superblock,
) -> Result<Check, Cause> {
    let Superblock::Ext(ext) = superblock else { return Ok(Check::Possible) };
    if !node.mounter.needs_check(device, ext).await {
        return Ok(Check::Possible);
    }
    // The file system is in use elsewhere. If the kernel still mounts it here, the mount shows this live file system.
    if let Ok(Hold::Held(by)) = node.mounter.try_exclusive_open(device.number()).await {
        warn_unchecked(plan, &format!("the device is held by {}", by.join(", ")));
        return Ok(Check::Impossible);
    }
    match node.mounter.check(device).await {
        Ok(()) => Ok(Check::Possible),
        Err(error @ CheckError::Tool(_)) if !ext.may_be_half_grown() => {
            warn_unchecked(plan, &chain(&error));
            Ok(Check::Impossible)
        }
        Err(error) => Err(error.into()),
    }
}

fn warn_unchecked(plan: &Stage, why: &str) {
    tracing::warn!(volume = %plan.volume, path = %plan.staging, why, "mounting a file system whose check could not run: the next NodeStageVolume call tries the check again");
}

/// Mounts the device's file system at the staging path.
///
/// If the kernel refuses the mount because of damage, or finds errors during the mount, checks an ext file system that
/// is not mounted elsewhere, and mounts it again. If the mount succeeded but e2fsck cannot run, the mount stays.
///
/// Cancellation: a check that has started runs to its end. The caller's operation outlives its request.
///
/// # Errors
/// The mount or the check failed. Nothing is mounted then, unless the unmount failed.
pub(super) async fn mount(
    node: &LinuxNode,
    plan: &Stage,
    (device, fs_type): (&Device, FsType),
    check: Check,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let mounts = match attempt(node, plan, device, fs_type).await? {
        MountAttempt::Mounted => return Ok(()),
        MountAttempt::WithErrors if check == Check::Impossible => return Ok(()),
        MountAttempt::Refused { error, .. } => {
            warn(plan, &chain(&error));
            false
        }
        MountAttempt::WithErrors => {
            warn(plan, "the mount found errors");
            unmount(node, plan, device).await?;
            true
        }
    };
    ensure_wanted(waiters, "checking the file system")?;
    match node.mounter.check(device).await {
        // The superblock was not marked before the mount, so there was no interrupted growth.
        Err(error @ CheckError::Tool(_)) if mounts => warn_unchecked(plan, &chain(&error)),
        checked => checked?,
    }
    match attempt(node, plan, device, fs_type).await? {
        // The file system was just checked, or cannot be checked. The volume's health reports any errors that remain.
        MountAttempt::Mounted | MountAttempt::WithErrors => return Ok(()),
        MountAttempt::Refused { error, suspicion: Suspicion::PerhapsDamage } => return Err(error.into()),
        MountAttempt::Refused { error, suspicion: Suspicion::Damage } => warn(plan, &chain(&error)),
    }
    // The superblock was marked clean, so the first check did not cover the whole file system.
    ensure_wanted(waiters, "checking the whole file system")?;
    node.mounter.check_in_full(device).await?;
    match attempt(node, plan, device, fs_type).await? {
        MountAttempt::Mounted | MountAttempt::WithErrors => Ok(()),
        MountAttempt::Refused { error, .. } => Err(error.into()),
    }
}

fn warn(plan: &Stage, why: &str) {
    tracing::warn!(volume = %plan.volume, path = %plan.staging, why, "checking the file system, then mounting it again");
}

async fn attempt(node: &LinuxNode, plan: &Stage, device: &Device, fs_type: FsType) -> Result<MountAttempt, Cause> {
    let is_for_writing = fs_type.is_ext() && !plan.options.is_read_only();
    let error = match node.mounter.mount(device, &plan.staging, fs_type, &plan.options).await {
        Ok(()) => {
            refuse_shared_failure(node, plan, device).await?;
            let needs_check = is_for_writing && shows_errors(node, device).await && is_only_mount(device).await?;
            return Ok(if needs_check { MountAttempt::WithErrors } else { MountAttempt::Mounted });
        }
        Err(error) => error,
    };
    let Some(suspicion) = error.suspicion().filter(|_| fs_type.is_ext()) else { return Err(error.into()) };
    let is_read_only_disk = device.is_read_only().await.map_err(Cause::io("check whether the device is read-only"))?;
    if !is_for_writing || is_read_only_disk {
        return Err(match suspicion {
            Suspicion::Damage => NodeRefusal::DamagedReadOnly { why: chain(&error) }.into(),
            Suspicion::PerhapsDamage => error.into(),
        });
    }
    // A tool must not write to a device that is mounted elsewhere.
    if MountTable::read().await?.of_device(device.number()).next().is_some() {
        return Err(error.into());
    }
    Ok(MountAttempt::Refused { error, suspicion })
}

/// Returns true when the superblock has recorded errors. Returns false when the superblock is unreadable, because that
/// does not justify an unmount.
async fn shows_errors(node: &LinuxNode, device: &Device) -> bool {
    node.mounter.has_error_state(device).await.unwrap_or_else(|error| {
        tracing::warn!(volume = %device.volume(), device = %device.path().display(), %error, "failed to read the superblock of the mounted file system");
        false
    })
}

async fn is_only_mount(device: &Device) -> Result<bool, Cause> {
    Ok(MountTable::read().await?.of_device(device.number()).count() == 1)
}

/// Refuses a new mount whose file system is already dead or read-only after errors, and unmounts it. Another mount
/// namespace still uses this file system, and every further mount would show the same state.
async fn refuse_shared_failure(node: &LinuxNode, plan: &Stage, device: &Device) -> Result<(), Cause> {
    let found = plan.staging.kind().await.map_err(Cause::io("examine the staging path"))?;
    let (table, at) = owner::topmost(&plan.staging).await?;
    let Some(entry) = table.topmost(&at) else { return Ok(()) };
    let (at, also) = (plan.staging.clone(), "in use in another mount namespace".to_owned());
    let refused = match dead_mounts::evidence_of_death(entry, &found) {
        Some(error) => NodeRefusal::DeadFileSystem { at, error, also },
        None if !plan.options.is_read_only() && turned_read_only(entry) => {
            NodeRefusal::ReadOnlyAfterErrors { at, also }
        }
        None => return Ok(()),
    };
    unmount(node, plan, device).await?;
    Err(refused.into())
}

/// Unmounts the mount that this call made.
async fn unmount(node: &LinuxNode, plan: &Stage, device: &Device) -> Result<(), Cause> {
    let (table, at) = owner::topmost(&plan.staging).await?;
    match table.topmost(&at).filter(|entry| entry.device == device.number()) {
        Some(entry) => Ok(node.mounter.unmount_top(&plan.staging, entry, false).await.map(drop)?),
        None => Ok(()),
    }
}

/// Returns true when the kernel turned a file system read-only that was mounted for writing: the file system's options
/// contain `ro`, and the mount's options `rw`. Since Linux 6.15, the kernel shows `emergency_ro` instead.
pub(super) fn turned_read_only(entry: &MountEntry) -> bool {
    is_emergency(entry) || (entry.is_file_system_read_only() && !entry.is_read_only())
}

/// Returns true when the mount table has `emergency_ro`: errors turned the file system read-only. Linux shows this
/// option since 6.15.
pub(super) fn is_emergency(entry: &MountEntry) -> bool {
    entry.super_options.iter().any(|word| word == "emergency_ro")
}

/// Unmounts an unused staged file system that needs a check, because it turned read-only after errors or because the
/// kernel has recorded errors. Returns true when nothing is mounted any more, and the caller must start from the
/// beginning.
///
/// If the file system is in use, it stays mounted while it is writable, and is refused otherwise.
pub(super) async fn clear_unchecked(
    node: &LinuxNode,
    plan: &Stage,
    device: &Device,
    waiters: &Waiters,
) -> Result<bool, Cause> {
    let (table, at) = owner::topmost(&plan.staging).await?;
    let Some(entry) = table.topmost(&at).filter(|entry| entry.device == device.number()) else { return Ok(false) };
    let is_ext = FsType::parse(&entry.fs_type).is_ok_and(FsType::is_ext);
    if plan.options.is_read_only() || !is_ext {
        return Ok(false);
    }
    let turned = turned_read_only(entry);
    if !turned && !shows_errors(node, device).await {
        return Ok(false);
    }
    let also = in_use::other_uses(node, device.number(), &at).await?;
    if !also.is_empty() {
        refuse_unwritable(node, &plan.staging, turned, also).await?;
        tracing::warn!(volume = %plan.volume, path = %plan.staging, "file system needs a check but is in use: NodeStageVolume checks it when no pod uses it");
        return Ok(false);
    }
    // Test a write before the unmount: the result decides how to handle a holder in another mount namespace.
    let can_write = !turned && node.mounter.can_write(plan.staging.as_path()).await.unwrap_or(false);
    tracing::warn!(volume = %plan.volume, path = %plan.staging, turned, "unmounting the unused staged file system to check it");
    match dead_mounts::unmount_unused(node, device, &plan.staging, waiters).await {
        Ok(()) => Ok(true),
        // The held file system cannot be checked, but it is usable, so the caller mounts it again.
        Err(Cause::Refused(NodeRefusal::Held { .. })) if can_write => Ok(true),
        Err(Cause::Unmount(UnmountError::Busy { .. })) => {
            refuse_unwritable(node, &plan.staging, turned, "in use by a process".to_owned()).await.map(|()| false)
        }
        Err(error) => Err(error),
    }
}

/// Refuses to publish for writing when the file system is no longer writable.
pub(super) async fn refuse_read_only(node: &LinuxNode, staging: &NodePath, staged: &MountEntry) -> Result<(), Cause> {
    let turned = turned_read_only(staged);
    // If the recorded errors cannot be read, a test write decides.
    let has_errors = turned || node.mounter.recorded_errors(staged).await.map_or(true, |errors| errors.is_some());
    if has_errors { refuse_unwritable(node, staging, turned, String::new()).await } else { Ok(()) }
}

/// Refuses a file system that does not accept a test write. Some kernels (6.12 to 6.14, and older ones with the same
/// change) stop all writes after an error without showing it in the mount table.
async fn refuse_unwritable(node: &LinuxNode, at: &NodePath, turned: bool, also: String) -> Result<(), Cause> {
    let can_write = !turned && node.mounter.can_write(at.as_path()).await.map_err(Cause::io("test a write"))?;
    if can_write { Ok(()) } else { Err(NodeRefusal::ReadOnlyAfterErrors { at: at.clone(), also }.into()) }
}

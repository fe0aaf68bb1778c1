//! Repairs file systems when they are staged: damage that makes the kernel refuse a mount, and errors that a mount
//! finds or that the kernel recorded. e2fsck makes only repairs that need no human decision.
//!
//! Decision: `docs/dev/decisions/0021-repair-only-what-needs-no-decision.md`.

use ebs_ec2::Waiters;
use ebs_mounter::{
    CheckError, Device, FsType, Hold, MountEntry, MountError, MountTable, NodePath, Superblock, Suspicion, UnmountError,
};

use super::error::{Cause, NodeRefusal};
use super::request::Stage;
use super::wanted::ensure_wanted;
use super::{LinuxNode, in_use, owner};
use crate::status::chain;

/// The result of a mount. After `Refused` and `WithErrors`, a check may repair the file system.
enum MountAttempt {
    Mounted,
    Refused { error: MountError, suspicion: Suspicion },
    WithErrors,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Possible,
    /// The file system needs a check, but e2fsck cannot start. That does not prove damage.
    Impossible,
}

/// Checks an unmounted ext file system, if its superblock or journal demands it. If e2fsck cannot run, the kernel
/// decides whether it mounts the file system, and the superblock stays marked for the next call.
///
/// Cancellation: a check that has started runs to its end.
///
/// # Errors
/// e2fsck does not repair the damage by itself, a signal ended the check in the middle of a repair, or the check could
/// not run on a file system that resize2fs may have moved in part.
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
/// If the kernel refuses the mount because of damage, or finds errors, checks an ext file system that is not mounted
/// elsewhere, and mounts it again. If the mount succeeded but e2fsck cannot run, the mount stays. After an error,
/// nothing is mounted, unless the unmount failed.
///
/// Cancellation: a check that has started runs to its end.
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
            warn(plan, "mounting the file system revealed errors");
            unmount(node, plan, device).await?;
            true
        }
    };
    ensure_wanted(waiters, "checking the file system")?;
    match node.mounter.check(device).await {
        // Before the mount, the superblock had no error mark, so no growth was interrupted.
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

/// Returns whether the superblock has recorded errors. An unreadable superblock does not justify an unmount.
async fn shows_errors(node: &LinuxNode, device: &Device) -> bool {
    node.mounter.has_error_state(device).await.unwrap_or_else(|error| {
        tracing::warn!(volume = %device.volume(), device = %device.path().display(), %error, "failed to read the superblock of the mounted file system");
        false
    })
}

async fn is_only_mount(device: &Device) -> Result<bool, Cause> {
    Ok(MountTable::read().await?.of_device(device.number()).count() == 1)
}

/// Unmounts a new mount whose file system is already dead or read-only after errors, and returns an error. Another
/// mount namespace still uses the file system, and every further mount would show the same state.
async fn refuse_shared_failure(node: &LinuxNode, plan: &Stage, device: &Device) -> Result<(), Cause> {
    let found = plan.staging.kind().await.map_err(Cause::io("examine the staging path"))?;
    let (table, at) = owner::topmost(&plan.staging).await?;
    let Some(entry) = table.topmost(&at) else { return Ok(()) };
    let (at, also) = (plan.staging.clone(), "in use in another mount namespace".to_owned());
    let refused = match owner::evidence_of_death(entry, &found) {
        Some(error) => NodeRefusal::DeadFileSystem { at, error, also },
        None if !plan.options.is_read_only() && turned_read_only(entry) => {
            NodeRefusal::ReadOnlyAfterErrors { at, also }
        }
        None => return Ok(()),
    };
    unmount(node, plan, device).await?;
    Err(refused.into())
}

async fn unmount(node: &LinuxNode, plan: &Stage, device: &Device) -> Result<(), Cause> {
    let (table, at) = owner::topmost(&plan.staging).await?;
    match table.topmost(&at).filter(|entry| entry.device == device.number()) {
        Some(entry) => Ok(node.mounter.unmount_top(&plan.staging, entry, false).await.map(drop)?),
        None => Ok(()),
    }
}

/// Returns whether the kernel turned a file system read-only that was mounted for writing (`ro` beside the mount's
/// `rw`). Since Linux 6.15, the kernel shows `emergency_ro` instead.
pub(super) fn turned_read_only(entry: &MountEntry) -> bool {
    is_emergency(entry) || (entry.is_file_system_read_only() && !entry.is_read_only())
}

/// Returns whether errors turned the file system read-only, which Linux shows as `emergency_ro` since 6.15.
pub(super) fn is_emergency(entry: &MountEntry) -> bool {
    entry.super_options.iter().any(|word| word == "emergency_ro")
}

/// Unmounts an unused staged file system that turned read-only after errors or has recorded errors. Returns true when
/// the caller must start again. Leaves a file system in use mounted, and returns an error if it is not writable.
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
    match owner::unmount_unused(node, device, &plan.staging, waiters).await {
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
    let can_write = !turned
        && node
            .mounter
            .can_write(at.as_path())
            .await
            .map_err(Cause::io("test whether the file system accepts a write"))?;
    if can_write { Ok(()) } else { Err(NodeRefusal::ReadOnlyAfterErrors { at: at.clone(), also }.into()) }
}

//! Repairs at stage: what the kernel refuses for damage, what it found while it mounted, and what it
//! recorded or turned read-only while no pod used the volume. e2fsck decides about nothing that a person must decide about.
//!
//! Decision: `docs/decisions/0021-repair-only-what-needs-no-decision.md`.

use ebs_mounter::{
    CheckError, Device, FsType, Hold, MountEntry, MountError, MountTable, NodePath, Superblock, Suspicion, UnmountError,
};
use ebs_types::Waiters;

use super::Inner;
use super::corrupted;
use super::error::{Cause, Refused};
use super::other_use;
use super::owner;
use super::request::Stage;
use crate::status::chain;

/// What a try to mount has led to.
enum Tried {
    Mounted,
    /// Nothing is mounted, and a check may help.
    Refused {
        error: MountError,
        suspicion: Suspicion,
    },
    /// It is mounted, and the mount has found errors that need a check.
    WithErrors,
}

/// Whether e2fsck can help with a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Possible,
    /// The file system needs a check, and e2fsck cannot start. That proves no damage.
    Impossible,
}

/// Checks an ext file system that is mounted nowhere here and whose superblock or journal demands it. Where e2fsck cannot do that,
/// the kernel decides whether it mounts the file system, which stays marked: its health shows that, and the next stage tries again.
///
/// Cancellation: a check that has started runs to its end.
///
/// # Errors
/// Damage that e2fsck does not repair by itself. A check that a signal ended: e2fsck may have written a part of a repair, and the
/// kernel would mount that. Also a check that could not run, where the mark may be that of a growth that broke off: the kernel
/// would mount what resize2fs has moved in part.
pub(super) async fn check_if_needed(
    node: &Inner,
    plan: &Stage,
    device: &Device,
    superblock: &Superblock,
) -> Result<Check, Cause> {
    let Superblock::Ext(ext) = superblock else { return Ok(Check::Possible) };
    if !node.mounter.needs_check(device, ext).await {
        return Ok(Check::Possible);
    }
    // A mount that succeeds all the same is of the file system that is alive in the other place, as it is.
    if let Ok(Hold::Held(by)) = node.mounter.hold_of(device.number()).await {
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
    tracing::warn!(volume = %plan.volume, path = %plan.staging, why, "the file system needs a check and could not be checked: the driver mounts it if the kernel does, and the next stage tries the check again");
}

/// Mounts the file system of a device at the staging path. Where the kernel refuses it for damage, or finds errors while it
/// mounts, an ext file system that is mounted nowhere else is checked, and mounted again. What the kernel mounts stays mounted when
/// e2fsck cannot start.
///
/// Cancellation: a check that has started runs to its end; the caller's operation outlives its request.
///
/// # Errors
/// Those of the mount and of the check; nothing is mounted then, unless what was mounted cannot be unmounted.
pub(super) async fn mount(
    node: &Inner,
    plan: &Stage,
    (device, fs_type): (&Device, FsType),
    check: Check,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let mounts = match attempt(node, plan, device, fs_type).await? {
        Tried::Mounted => return Ok(()),
        Tried::WithErrors if check == Check::Impossible => return Ok(()),
        Tried::Refused { error, .. } => {
            warn(plan, &chain(&error));
            false
        }
        Tried::WithErrors => {
            warn(plan, "the mount has found errors");
            unmount(node, plan, device).await?;
            true
        }
    };
    check_still_wanted(waiters, "checking the file system")?;
    match node.mounter.check(device).await {
        // The superblock was not marked before the mount, so no growth has broken off.
        Err(error @ CheckError::Tool(_)) if mounts => warn_unchecked(plan, &chain(&error)),
        checked => checked?,
    }
    match attempt(node, plan, device, fs_type).await? {
        // It was checked just now, or cannot be. What it shows all the same shows in the health, too.
        Tried::Mounted | Tried::WithErrors => return Ok(()),
        Tried::Refused { error, suspicion: Suspicion::PerhapsDamage } => return Err(error.into()),
        Tried::Refused { error, suspicion: Suspicion::Damage } => warn(plan, &chain(&error)),
    }
    // The superblock calls it clean, so e2fsck has not looked at all of it.
    check_still_wanted(waiters, "checking the whole file system")?;
    node.mounter.check_in_full(device).await?;
    match attempt(node, plan, device, fs_type).await? {
        Tried::Mounted | Tried::WithErrors => Ok(()),
        Tried::Refused { error, .. } => Err(error.into()),
    }
}

fn warn(plan: &Stage, why: &str) {
    tracing::warn!(volume = %plan.volume, path = %plan.staging, why, "checking the file system, then mounting it again");
}

async fn attempt(node: &Inner, plan: &Stage, device: &Device, fs_type: FsType) -> Result<Tried, Cause> {
    let is_for_writing = fs_type.is_ext() && !plan.options.is_read_only();
    let error = match node.mounter.mount(device, &plan.staging, fs_type, &plan.options).await {
        Ok(()) => {
            refuse_shared_failure(node, plan, device).await?;
            let needs_check = is_for_writing && shows_errors(node, device).await && is_only_mount(device).await?;
            return Ok(if needs_check { Tried::WithErrors } else { Tried::Mounted });
        }
        Err(error) => error,
    };
    let Some(suspicion) = error.suspicion().filter(|_| fs_type.is_ext()) else { return Err(error.into()) };
    let is_read_only_disk = device.is_read_only().await.map_err(Cause::io("asking for write access"))?;
    if !is_for_writing || is_read_only_disk {
        return Err(match suspicion {
            Suspicion::Damage => Refused::DamagedReadOnly { why: chain(&error) }.into(),
            Suspicion::PerhapsDamage => error.into(),
        });
    }
    // No tool may touch from outside what is mounted elsewhere.
    if MountTable::read().await?.of_device(device.number()).next().is_some() {
        return Err(error.into());
    }
    Ok(Tried::Refused { error, suspicion })
}

/// True when the superblock has recorded errors. One that cannot be read shows none: a mount is not taken away for that.
async fn shows_errors(node: &Inner, device: &Device) -> bool {
    node.mounter.has_error_state(device).await.unwrap_or_else(|error| {
        tracing::warn!(volume = %device.volume(), device = %device.path().display(), %error, "the superblock of the mounted file system cannot be read");
        false
    })
}

async fn is_only_mount(device: &Device) -> Result<bool, Cause> {
    Ok(MountTable::read().await?.of_device(device.number()).count() == 1)
}

/// Refuses a mount that shows a file system which died or turned read-only before: another mount namespace uses it still, and every
/// further mount shows the same. The mount is taken away again.
async fn refuse_shared_failure(node: &Inner, plan: &Stage, device: &Device) -> Result<(), Cause> {
    let found = plan.staging.look().await.map_err(Cause::io("looking at the staging path"))?;
    let (table, at) = owner::topmost(&plan.staging).await?;
    let Some(entry) = table.topmost(&at) else { return Ok(()) };
    let (at, also) = (plan.staging.clone(), "in use in another mount namespace".to_owned());
    let refused = match corrupted::death(entry, &found) {
        Some(error) => Refused::DeadFileSystem { at, error, also },
        None if !plan.options.is_read_only() && turned_read_only(entry) => Refused::ReadOnlyAfterErrors { at, also },
        None => return Ok(()),
    };
    unmount(node, plan, device).await?;
    Err(refused.into())
}

/// Unmounts what this call has mounted.
async fn unmount(node: &Inner, plan: &Stage, device: &Device) -> Result<(), Cause> {
    let (table, at) = owner::topmost(&plan.staging).await?;
    match table.topmost(&at).filter(|entry| entry.device == device.number()) {
        Some(entry) => Ok(node.mounter.unmount_top(&plan.staging, entry, false).await.map(drop)?),
        None => Ok(()),
    }
}

/// True when the kernel turned a file system read-only that was not mounted so: the file system says `ro`, the mount `rw`. From
/// Linux 6.15 on it has a word of its own for it.
pub(super) fn turned_read_only(entry: &MountEntry) -> bool {
    is_emergency(entry) || (entry.is_file_system_read_only() && !entry.is_read_only())
}

/// True when the kernel reports that errors turned the file system read-only. It has had a word for this since Linux 6.15.
pub(super) fn is_emergency(entry: &MountEntry) -> bool {
    entry.super_options.iter().any(|word| word == "emergency_ro")
}

/// Unmounts a staged file system that needs a check, when nothing uses it: one that turned read-only after errors, and one of
/// which the kernel has recorded errors. True: nothing is mounted any more, and the stage goes on from the beginning.
///
/// While it is used, one that can still be written stays; a stage for writing is refused when it cannot.
pub(super) async fn clear_unchecked(
    node: &Inner,
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
    let also = other_use::elsewhere(node, device.number(), &at).await?;
    if !also.is_empty() {
        refuse_unwritable(node, &plan.staging, turned, also).await?;
        tracing::warn!(volume = %plan.volume, path = %plan.staging, "the file system needs a check and is in use: a stage checks it when no pod uses it");
        return Ok(false);
    }
    // Asked before the unmount: the answer decides what a holder in another mount namespace means.
    let can_write = !turned && node.mounter.can_write(plan.staging.as_path()).await.unwrap_or(false);
    tracing::warn!(volume = %plan.volume, path = %plan.staging, turned, "the staged file system needs a check and nothing uses it: checking it, then mounting it again");
    match corrupted::unmount_unused(node, device, &plan.staging, waiters).await {
        Ok(()) => Ok(true),
        // It cannot be checked, and can be used: it is mounted again.
        Err(Cause::Refused(Refused::Held { .. })) if can_write => Ok(true),
        Err(Cause::Unmount(UnmountError::Busy { .. })) => {
            refuse_unwritable(node, &plan.staging, turned, "in use by a process".to_owned()).await.map(|()| false)
        }
        Err(error) => Err(error),
    }
}

/// Refuses to publish a file system for writing that cannot be written any more.
pub(super) async fn refuse_read_only(node: &Inner, staging: &NodePath, staged: &MountEntry) -> Result<(), Cause> {
    let turned = turned_read_only(staged);
    // Where the record cannot be read, a try tells.
    let has_errors = turned || node.mounter.recorded_errors(staged).await.map_or(true, |errors| errors.is_some());
    if has_errors { refuse_unwritable(node, staging, turned, String::new()).await } else { Ok(()) }
}

/// Some kernels (6.12 to 6.14, and older ones with the same change) end all writes after an error and show it nowhere: only a try
/// tells.
async fn refuse_unwritable(node: &Inner, at: &NodePath, turned: bool, also: String) -> Result<(), Cause> {
    let can_write = !turned && node.mounter.can_write(at.as_path()).await.map_err(Cause::io("trying to write"))?;
    if can_write { Ok(()) } else { Err(Refused::ReadOnlyAfterErrors { at: at.clone(), also }.into()) }
}

fn check_still_wanted(waiters: &Waiters, before: &'static str) -> Result<(), Cause> {
    if waiters.any() { Ok(()) } else { Err(Cause::Abandoned { before }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_turned_read_only_when_its_mount_did_not_ask_for_it() {
        let entry = |options: &str, super_options: &str| {
            let line = format!("36 35 259:2 / /staging {options} - ext4 /dev/nvme2n1 {super_options}\n");
            MountTable::parse(line.as_bytes()).entries()[0].clone()
        };
        assert!(turned_read_only(&entry("rw,relatime", "ro")));
        assert!(turned_read_only(&entry("rw", "rw,emergency_ro")));
        assert!(!turned_read_only(&entry("rw", "rw")));
        assert!(!turned_read_only(&entry("ro", "ro")));
    }
}

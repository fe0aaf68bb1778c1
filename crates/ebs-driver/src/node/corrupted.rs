//! Mounts that are of no use any more: their disk has vanished, or their file
//! system was shut down and answers with errors only. They make room for the volume as it is now, where it is proven that
//! nobody loses anything by it; a device that hangs or cannot be identified has not vanished.

use ebs_mounter::{Device, Found, MountEntry, NodePath, UnmountError};
use ebs_types::{VolumeId, Waiters};

use super::Inner;
use super::error::{Cause, Refused};
use super::other_use;
use super::owner::{self, Owner};
use super::unmount::MAX_DEPTH;

/// Takes away, from the top down, what is mounted at a path and whose disk has vanished. What is not proven to have vanished
/// stays, and is judged by the caller.
pub(super) async fn clear_vanished(
    node: &Inner,
    volume: &VolumeId,
    path: &NodePath,
    waiters: &Waiters,
) -> Result<(), Cause> {
    for _ in 0..MAX_DEPTH {
        let (table, at) = owner::topmost(path).await?;
        let Some(entry) = table.topmost(&at) else { return Ok(()) };
        let Ok(Owner::Vanished) = owner::owner(&node.mounter, entry, volume).await else { return Ok(()) };
        check_still_wanted(waiters)?;
        node.mounter.unmount_top(path, entry, true).await?;
        tracing::warn!(%volume, %path, "the mount of a disk that has vanished made room for the volume");
    }
    Err(UnmountError::Endless { path: path.as_path().to_owned(), mounts: MAX_DEPTH }.into())
}

/// What shows that the file system of a mount is dead, in words; `None`: nothing does.
pub(super) fn death(entry: &MountEntry, found: &Found) -> Option<String> {
    match found {
        Found::Corrupted(error) => Some(error.clone()),
        // ext4 says so in the mount table, and still answers from memory.
        _ => entry.super_options.iter().any(|word| word == "shutdown").then(|| "that it was shut down".to_owned()),
    }
}

/// Refuses to answer for a dead file system.
pub(super) fn refuse_dead(at: &NodePath, entry: &MountEntry, found: &Found) -> Result<(), Refused> {
    let Some(error) = death(entry, found) else { return Ok(()) };
    Err(Refused::DeadFileSystem { at: at.clone(), error, also: String::new() })
}

/// Unmounts a dead file system of the device from the staging path, so that it can be mounted anew: only when its last mount
/// is gone does the kernel begin with what is on the disk.
///
/// Refuses while the volume is published or held by anybody: a second mount would show the same dead file system.
pub(super) async fn clear_dead(
    node: &Inner,
    device: &Device,
    staging: &NodePath,
    error: String,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let (_, at) = owner::topmost(staging).await?;
    let also = other_use::elsewhere(node, device.number(), &at).await?;
    if !also.is_empty() {
        return Err(Refused::DeadFileSystem { at: staging.clone(), error, also }.into());
    }
    tracing::warn!(volume = %device.volume(), path = %staging, error, "the staged file system is dead and nothing uses it: mounting it again");
    unmount_unused(node, device, staging, waiters).await
}

/// Unmounts all mounts of the device from the staging path, which must be used nowhere else, and makes sure that the kernel has let
/// its file system go.
pub(super) async fn unmount_unused(
    node: &Inner,
    device: &Device,
    staging: &NodePath,
    waiters: &Waiters,
) -> Result<(), Cause> {
    for _ in 0..MAX_DEPTH {
        let (table, at) = owner::topmost(staging).await?;
        let Some(entry) = table.topmost(&at).filter(|entry| entry.device == device.number()) else {
            return let_go(node, device, staging).await;
        };
        check_still_wanted(waiters)?;
        node.mounter.unmount_top(staging, entry, false).await?;
    }
    Err(UnmountError::Endless { path: staging.as_path().to_owned(), mounts: MAX_DEPTH }.into())
}

/// Refuses while anybody holds the disk. Other mount namespaces may have copies of the mount that they do not use: these the kernel
/// takes away with the staging directory. A process that has a file open on such a copy keeps the file system alive.
async fn let_go(node: &Inner, device: &Device, staging: &NodePath) -> Result<(), Cause> {
    let Err(held) = other_use::refuse_held(node, device.number(), true).await else { return Ok(()) };
    if staging.remove().await.is_ok() && other_use::refuse_held(node, device.number(), true).await.is_ok() {
        return Ok(());
    }
    // Asked while the copies were there: they tell who it is.
    Err(held)
}

fn check_still_wanted(waiters: &Waiters) -> Result<(), Cause> {
    if waiters.any() { Ok(()) } else { Err(Cause::Abandoned { before: "unmounting" }) }
}

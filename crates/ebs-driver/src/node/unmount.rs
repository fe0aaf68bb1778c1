//! NodeUnstageVolume and NodeUnpublishVolume (`node.md` 10 to 12): unmount all that lies at the path and remove the place.

use ebs_mounter::Found;
use ebs_types::Waiters;

use super::Inner;
use super::error::{Cause, Refused};
use super::owner;
use super::request::Unmount;

/// Unmounts the staging path. A directory where nothing is mounted is left as it is. The record of an interrupted
/// format ends here (`decisions.md` D-32).
pub(super) async fn unstage(node: &Inner, plan: &Unmount, waiters: &Waiters) -> Result<(), Cause> {
    if look(plan).await? != Found::Missing && take_away(node, plan, waiters).await? {
        plan.path.remove().await.map_err(Cause::io("removing the staging directory"))?;
    }
    Ok(node.mounter.forget_format(&plan.volume).await?)
}

/// Unmounts the target and removes it, when it is empty.
pub(super) async fn unpublish(node: &Inner, plan: &Unmount, waiters: &Waiters) -> Result<(), Cause> {
    if look(plan).await? == Found::Missing {
        return Ok(());
    }
    take_away(node, plan, waiters).await?;
    plan.path.remove().await.map_err(Cause::io("removing the target, which is never emptied"))
}

async fn look(plan: &Unmount) -> Result<Found, Cause> {
    match plan.path.look().await.map_err(Cause::io("looking at the path"))? {
        Found::Symlink => Err(Refused::Symlink.into()),
        found => Ok(found),
    }
}

/// True when something was mounted.
async fn take_away(node: &Inner, plan: &Unmount, waiters: &Waiters) -> Result<bool, Cause> {
    owner::refuse_others(&node.mounter, &plan.path, &plan.volume).await?;
    if !waiters.any() {
        return Err(Cause::Abandoned { before: "unmounting" });
    }
    let done = node.mounter.unmount_all(&plan.path).await?;
    if done.mounts > 0 {
        tracing::info!(volume = %plan.volume, path = %plan.path, mounts = done.mounts, vanished = done.vanished, "unmounted");
    }
    Ok(done.mounts > 0)
}

//! Finds other uses of a volume's disk, during which writing to, publishing or unstaging the disk could damage data.
//!
//! Decision: `docs/dev/decisions/0022-unstage-only-a-disk-that-nothing-holds.md`.

use std::path::Path;

use ebs_mounter::{DeviceNumber, DiskMounts, Hold};

use super::LinuxNode;
use super::decide::describe;
use super::error::{Cause, NodeRefusal};
use super::request::VolumePath;

const NAMED: usize = 4;

/// Fails while the disk is bound as a raw device at a path other than `here`: writes through that path would corrupt a
/// file system.
pub(super) async fn refuse_raw_binds(node: &LinuxNode, disk: DeviceNumber, here: &Path) -> Result<(), Cause> {
    let uses = uses(node, disk).await?;
    let at = names(uses.raw.iter().filter(|bind| bind.at != here).map(|bind| bind.at.display().to_string()));
    if at.is_empty() { Ok(()) } else { Err(NodeRefusal::BoundRaw { at }.into()) }
}

/// Refuses to publish a raw disk while one of its file systems is mounted, or while a bind of a detached disk with the
/// same number remains. Permits a bind of this disk itself, which publishes the volume to another pod.
pub(super) async fn refuse_before_raw(node: &LinuxNode, disk: DeviceNumber) -> Result<(), Cause> {
    let uses = uses(node, disk).await?;
    let former = uses.raw.iter().filter(|bind| bind.is_former);
    let at = names(former.map(|bind| format!("{} (of a detached disk)", bind.at.display())));
    if !at.is_empty() {
        return Err(NodeRefusal::BoundRaw { at }.into());
    }
    let at = names(uses.mounts.iter().map(|entry| format!("{} ({})", entry.target.display(), describe(entry))));
    if !at.is_empty() {
        return Err(NodeRefusal::MountedToo { at }.into());
    }
    // If another pod already uses the raw device, that pod may hold it exclusively.
    if uses.raw.is_empty() { refuse_unseen(node, disk).await } else { Ok(()) }
}

/// Fails while another mount namespace or a tool holds the disk. Accepts a device that the kernel built on the disk,
/// such as an automatically activated LVM volume group, because it belongs to the pod.
async fn refuse_unseen(node: &LinuxNode, disk: DeviceNumber) -> Result<(), Cause> {
    let hold = node.mounter.try_exclusive_open(disk).await.map_err(Cause::io("open the device exclusively"))?;
    let Hold::Held(who) = hold else { return Ok(()) };
    let by = named(who);
    if node.mounter.is_built_on(disk).await.map_err(Cause::io("find devices that are built on the device"))? {
        tracing::warn!(%disk, by, "publishing a raw disk that is held by a device built on it");
        return Ok(());
    }
    Err(NodeRefusal::HeldBeforeRaw { by }.into())
}

/// Refuses to unstage a volume that would still be in use after everything at the staging path is unmounted.
pub(super) async fn refuse_other_uses(node: &LinuxNode, disk: DeviceNumber, staging: &Path) -> Result<(), Cause> {
    let at = other_uses(node, disk, staging).await?;
    if at.is_empty() { Ok(()) } else { Err(NodeRefusal::InUse { at }.into()) }
}

/// Describes the uses that would remain after everything at the staging path is unmounted, or returns an empty text.
pub(super) async fn other_uses(node: &LinuxNode, disk: DeviceNumber, staging: &Path) -> Result<String, Cause> {
    let uses = uses(node, disk).await?;
    Ok(names(left_over(&uses, staging)))
}

async fn uses(node: &LinuxNode, disk: DeviceNumber) -> Result<DiskMounts, Cause> {
    node.mounter.mounts_of_disk(disk).await.map_err(Cause::io("find other uses of the device"))
}

fn left_over<'a>(uses: &'a DiskMounts, staging: &'a Path) -> impl Iterator<Item = String> + 'a {
    let mounts = uses.mounts_not_at(staging).into_iter().map(|entry| format!("mounted at {}", entry.target.display()));
    let raw = uses.raw.iter().filter(move |bind| bind.at != staging);
    mounts.chain(raw.map(|bind| format!("bound at {}", bind.at.display())))
}

/// Refuses to report a volume as unstaged while something that the mount table does not show holds its disk. First
/// thaws a frozen file system without mounts. On success, all unsynced writes are on the disk.
pub(super) async fn ensure_released(
    node: &LinuxNode,
    disk: DeviceNumber,
    plan: &VolumePath,
    unmounted: bool,
) -> Result<(), Cause> {
    let Err(held) = refuse_held(node, disk, unmounted).await else { return Ok(()) };
    if !matches!(held, Cause::Refused(NodeRefusal::Held { .. })) {
        return Err(held);
    }
    let thawed = node.mounter.thaw_unmounted(disk, &plan.path).await;
    if !thawed.map_err(Cause::io("find a frozen file system"))? {
        return Err(held);
    }
    tracing::warn!(volume = %plan.volume, %disk, "thawed a frozen file system that kept the disk in use although it was not mounted");
    refuse_held(node, disk, unmounted).await
}

/// Fails while something outside the mount table holds the disk. If the disk is free, the exclusive open flushes it.
pub(super) async fn refuse_held(node: &LinuxNode, disk: DeviceNumber, unmounted: bool) -> Result<(), Cause> {
    match node.mounter.try_exclusive_open(disk).await.map_err(Cause::io("check that the device is free"))? {
        Hold::Free => Ok(()),
        Hold::Gone => {
            tracing::warn!(%disk, "device vanished during NodeUnstageVolume");
            Ok(())
        }
        Hold::Held(who) => Err(NodeRefusal::Held { by: named(who), unmounted }.into()),
    }
}

fn named(who: Vec<String>) -> String {
    if who.is_empty() { "an unknown process or mount".to_owned() } else { names(who) }
}

fn names(of: impl IntoIterator<Item = String>) -> String {
    let mut all: Vec<String> = of.into_iter().collect();
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_four_uses_of_a_volume_and_counts_the_rest() {
        let of = |count: usize| names((0..count).map(|number| format!("use {number}")));
        assert_eq!(of(0), "");
        assert_eq!(of(4), "use 0, use 1, use 2, use 3");
        assert_eq!(of(6), "use 0, use 1, use 2, use 3, 2 more");
    }
}

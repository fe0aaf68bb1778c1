//! NodePublishVolume: binds the staged file system, or the device itself, at the target.

use ebs_ec2::{Gib, Waiters};
use ebs_mounter::{DeviceQuery, FsType, MountEntry, MountSource, NodePath, PathKind};

use super::decide::{self, Mounted};
use super::error::{Cause, NodeRefusal};
use super::request::{Publish, PublishWhat};
use super::stage::ensure_large_enough;
use super::wanted::ensure_wanted;
use super::{LinuxNode, in_use, owner, repair};

pub(super) async fn run(node: &LinuxNode, plan: &Publish, waiters: &Waiters) -> Result<(), Cause> {
    let found = plan.target.kind().await.map_err(Cause::io("examine the target path"))?;
    if found == PathKind::Symlink {
        return Err(NodeRefusal::Symlink.into());
    }
    match &plan.what {
        PublishWhat::Filesystem { staging, fs_type } => {
            file_system(node, plan, (staging, *fs_type), &found, waiters).await
        }
        PublishWhat::Block { partition, size } => {
            let query = DeviceQuery { volume: plan.volume.clone(), hint: plan.device.clone(), partition: *partition };
            block(node, plan, (query, *size), &found, waiters).await
        }
    }
}

async fn file_system(
    node: &LinuxNode,
    plan: &Publish,
    (staging, fs_type): (&NodePath, Option<FsType>),
    found: &PathKind,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let staged = owner::staged(&node.mounter, staging, &plan.volume, plan.device.as_deref()).await?;
    let at_staging = staging.kind().await.map_err(Cause::io("examine the staging path"))?;
    owner::refuse_dead(staging, &staged, &at_staging)?;
    let options = node.mounter.effective(&plan.options);
    owner::clear_vanished(node, &plan.volume, &plan.target, waiters).await?;
    let (table, at) = owner::topmost(&plan.target).await?;
    let entry = table.topmost(&at);
    if decide::published(entry, &staged, fs_type, &options)? == Mounted::AsWanted {
        return Ok(());
    }
    if !options.is_read_only() {
        thaw_unused(node, plan, staging, &staged).await;
        repair::refuse_read_only(node, staging, &staged).await?;
    }
    decide::check_mount_point(&plan.target.kind().await.map_err(Cause::io("examine the target path"))?, false)?;
    in_use::refuse_raw_binds(node, staged.device, &at).await?;
    ensure_wanted(waiters, "mounting")?;
    plan.target.create_directory().await.map_err(Cause::io("create the target directory"))?;
    let shown = MountSource::Filesystem(staged.device);
    let bound = node.mounter.bind(staging.as_path(), &plan.target, &plan.options.of_one_mount(), shown).await;
    finish(plan, found, bound).await
}

/// Thaws a file system that no pod uses, because a pod that writes to a frozen file system hangs. A file system that a
/// pod uses stays frozen, because a running backup may have frozen it.
async fn thaw_unused(node: &LinuxNode, plan: &Publish, staging: &NodePath, staged: &MountEntry) {
    if node.mounter.thaw_only_mount(staged, staging).await {
        tracing::warn!(volume = %plan.volume, path = %staging, "thawed a frozen, unused file system before NodePublishVolume");
    }
}

async fn block(
    node: &LinuxNode,
    plan: &Publish,
    (query, promised): (DeviceQuery, Option<Gib>),
    found: &PathKind,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let device = node.mounter.find(&query).await?;
    ensure_large_enough(&device, promised).await?;
    // The pod may write to the disk from now on, so the record of an interrupted format must not permit another format.
    node.mounter.forget_format(&plan.volume).await?;
    owner::clear_vanished(node, &plan.volume, &plan.target, waiters).await?;
    let (table, at) = owner::topmost(&plan.target).await?;
    let entry = table.topmost(&at);
    let leads_to = match entry {
        Some(_) => node.mounter.block_device_at(&at).await.map_err(Cause::io("examine the target path"))?,
        None => None,
    };
    if decide::published_block(entry, leads_to, device.number(), &plan.options)? == Mounted::AsWanted {
        return Ok(());
    }
    decide::check_mount_point(&plan.target.kind().await.map_err(Cause::io("examine the target path"))?, true)?;
    in_use::refuse_before_raw(node, device.number()).await?;
    ensure_wanted(waiters, "mounting")?;
    plan.target.create_file().await.map_err(Cause::io("create the target file"))?;
    let shown = MountSource::Device(device.number());
    let bound = node.mounter.bind(device.path(), &plan.target, &plan.options.of_one_mount(), shown).await;
    finish(plan, found, bound).await
}

/// Removes the target after a failed bind, if this call created it.
async fn finish(plan: &Publish, found: &PathKind, bound: Result<(), ebs_mounter::MountError>) -> Result<(), Cause> {
    if bound.is_err()
        && *found == PathKind::Missing
        && let Err(error) = plan.target.remove().await
    {
        tracing::warn!(path = %plan.target, %error, "failed to remove the mount point");
    }
    bound?;
    tracing::debug!(volume = %plan.volume, path = %plan.target, "published");
    Ok(())
}

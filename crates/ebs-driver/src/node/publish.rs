//! NodePublishVolume (`node.md` 9): shows the staged file system, or the device itself, at the target.

use ebs_mounter::{DeviceQuery, Found, NodePath, Shown};
use ebs_types::Waiters;

use super::Inner;
use super::decide::{self, Mounted};
use super::error::{Cause, Refused};
use super::owner;
use super::request::{Publish, PublishWhat};

pub(super) async fn run(node: &Inner, plan: &Publish, waiters: &Waiters) -> Result<(), Cause> {
    let found = plan.target.look().await.map_err(Cause::io("looking at the target path"))?;
    if found == Found::Symlink {
        return Err(Refused::Symlink.into());
    }
    match &plan.what {
        PublishWhat::Filesystem { staging } => file_system(node, plan, staging, &found, waiters).await,
        PublishWhat::Block { .. } => block(node, plan, &found, waiters).await,
    }
}

async fn file_system(
    node: &Inner,
    plan: &Publish,
    staging: &NodePath,
    found: &Found,
    waiters: &Waiters,
) -> Result<(), Cause> {
    let staged = owner::staged(&node.mounter, staging, &plan.volume, plan.device.as_deref()).await?;
    let (table, at) = owner::topmost(&plan.target).await?;
    if decide::published(table.topmost(&at), &staged, &plan.options)? == Mounted::AsWanted {
        return Ok(());
    }
    decide::place(found, false)?;
    go_on(waiters)?;
    plan.target.create_directory().await.map_err(Cause::io("creating the target directory"))?;
    let shown = Shown::Filesystem(staged.device);
    let bound = node.mounter.bind(staging.as_path(), &plan.target, &plan.options.of_one_mount(), shown).await;
    finish(plan, found, bound).await
}

async fn block(node: &Inner, plan: &Publish, found: &Found, waiters: &Waiters) -> Result<(), Cause> {
    let PublishWhat::Block { partition } = plan.what else { return Ok(()) };
    let query = DeviceQuery { volume: plan.volume.clone(), hint: plan.device.clone(), partition };
    let device = node.mounter.find(&query).await?;
    let (table, at) = owner::topmost(&plan.target).await?;
    let entry = table.topmost(&at);
    let leads_to = match entry {
        Some(_) => node.mounter.block_device_at(&at).await.map_err(Cause::io("looking at the target path"))?,
        None => None,
    };
    if decide::published_block(entry, leads_to, device.number(), &plan.options)? == Mounted::AsWanted {
        return Ok(());
    }
    decide::place(found, true)?;
    go_on(waiters)?;
    plan.target.create_file().await.map_err(Cause::io("creating the target file"))?;
    let shown = Shown::Device(device.number());
    let bound = node.mounter.bind(device.path(), &plan.target, &plan.options.of_one_mount(), shown).await;
    finish(plan, found, bound).await
}

fn go_on(waiters: &Waiters) -> Result<(), Cause> {
    if waiters.any() { Ok(()) } else { Err(Cause::Abandoned { before: "mounting" }) }
}

/// After a failure takes away the place that was made for the mount; one that was there before stays.
async fn finish(plan: &Publish, found: &Found, bound: Result<(), ebs_mounter::MountError>) -> Result<(), Cause> {
    if bound.is_err()
        && *found == Found::Missing
        && let Err(error) = plan.target.remove().await
    {
        tracing::warn!(path = %plan.target, %error, "what was made for the mount stays behind");
    }
    bound?;
    tracing::info!(volume = %plan.volume, path = %plan.target, "published");
    Ok(())
}

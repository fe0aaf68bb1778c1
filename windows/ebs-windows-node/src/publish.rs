//! NodePublishVolume and NodeUnpublishVolume. A published volume is a link from the target path to the staging path.
//! The link of a running pod is never recreated.

use ebs_ec2::Waiters;
use winstorage::service::Found;
use winstorage::{StorageError, WayError};

use crate::disks::{Disks, Owner, ensure_free};
use crate::error::{Cause, NodeRefusal, ensure_wanted};
use crate::request::{At, Publish};
use crate::storage::Role;

pub(crate) fn run(disks: &Disks, plan: &Publish, waiters: &Waiters) -> Result<(), Cause> {
    staged(disks, plan)?;
    let storage = &disks.storage;
    let (staging, target) = (plan.staging.to_string(), plan.target.to_string());
    match storage.look(&target, Role::Target)? {
        Found::Link { target: leads_to } => {
            match storage.create_symlink(&staging, &target) {
                Err(Cause::Storage(StorageError::Way(WayError::Exists { .. }))) => {}
                same => return same,
            }
            ensure_wanted(waiters, "replacing the link")?;
            tracing::info!(volume = %plan.volume, path = target, leads_to, "replacing a link to another target");
            storage.rmdir(&target, false)?;
        }
        found => {
            ensure_free(&found)?;
            ensure_wanted(waiters, "linking")?;
            if found != Found::Missing {
                storage.rmdir(&target, false)?;
            }
        }
    }
    storage.create_symlink(&staging, &target)
}

fn staged(disks: &Disks, plan: &Publish) -> Result<(), Cause> {
    let refuse = |found: String| Err(NodeRefusal::NotStaged { staging: plan.staging.clone(), found }.into());
    match disks.storage.look(&plan.staging.to_string(), Role::Staging)? {
        Found::MountPoint(guid) => match disks.owner(&guid, &plan.volume, plan.device.as_deref())? {
            Owner::Volume(_) => Ok(()),
            Owner::Vanished => refuse(format!("{guid}, whose disk is missing")),
            Owner::Other(disk) => refuse(format!("a mount of disk {disk}, which belongs to another volume")),
        },
        found => refuse(found.to_string()),
    }
}

pub(crate) fn unpublish(disks: &Disks, plan: &At, _waiters: &Waiters) -> Result<(), Cause> {
    let path = plan.path.to_string();
    match disks.storage.look(&path, Role::Target)? {
        Found::Missing => Ok(()),
        Found::Link { .. } | Found::Directory { empty: true } => match disks.storage.rmdir(&path, false) {
            // Another process has already removed the link or directory.
            Err(Cause::Storage(StorageError::Missing { .. })) => Ok(()),
            removed => removed,
        },
        found => Err(NodeRefusal::InTheWay { found: found.to_string() }.into()),
    }
}

//! Creates a snapshot with its lock and its fast restores.
//! If a feature cannot be added, a final error must not leave the snapshot behind. The driver deletes a snapshot that
//! this process took and did not report. It keeps any other snapshot, because a client may know it, and the error is
//! then not final.

use ebs_ec2::{Ec2, Snapshot, SnapshotId, Waiters};

use super::create::{Taken, snapshot_op};
use super::lock_and_fast_restore::{
    SeenLock, check_fast_restore_zones, enable_fast_restores, ensure_lock, see_lock, set_lock,
};
use super::{Creation, SnapshotService, create, delete};
use crate::lease_terms::Sidecar;
use crate::{CloudErrorKind, Lock, LockEnd, Result, SnapshotFeatures, SnapshotSpec};

pub(super) async fn ensure<E: Ec2>(
    service: &SnapshotService<E>,
    spec: &SnapshotSpec,
    features: &SnapshotFeatures,
    waiters: &Waiters,
) -> Result<Snapshot> {
    let op = &snapshot_op(spec, waiters);
    let creation = Creation { service, op, spec };
    let ensured = ensure_within(&creation, features);
    let outcome = service.context.recent.leases.serve(&[Sidecar::Snapshotter], waiters, ensured).await;
    match &outcome {
        Ok(snapshot) => service.memory.record_reported(&snapshot.id),
        // Keep the error for the next attempt, which would otherwise take another snapshot that fails too.
        Err(error) if error.kind.is_final() && !waiters.any() => {
            service.memory.record_error(spec, features, error.clone())
        }
        Err(_) => {}
    }
    outcome
}

async fn ensure_within<E: Ec2>(creation: &Creation<'_, E>, features: &SnapshotFeatures) -> Result<Snapshot> {
    let &Creation { service, op, spec } = creation;
    if let Some(error) = service.memory.take_error(spec, features) {
        create::refused_unless_taken(creation, error).await?;
    }
    if let Err(error) = check_features(service, features).await {
        let taken = create::refused_unless_taken(creation, error.clone()).await?;
        if !has_features(service, &taken.id, features).await? {
            return Err(delete::roll_back(service, op, &taken.id, error).await);
        }
    }
    let taken = create::create(service, spec, op.waiters).await?;
    match apply_features(service, &taken, features, op.waiters).await {
        Ok(()) => Ok(taken.snapshot),
        Err(error) => Err(delete::roll_back(service, op, &taken.snapshot.id, error).await),
    }
}

async fn has_features<E: Ec2>(
    service: &SnapshotService<E>,
    id: &SnapshotId,
    features: &SnapshotFeatures,
) -> Result<bool> {
    let zones = &features.fast_restore_zones;
    if !(zones.is_empty() || service.memory.has_fast_restores(id, zones)) {
        return Ok(false);
    }
    match &features.lock {
        Some(lock) if !service.memory.is_locked(id, lock) => {
            Ok(see_lock(service, id, lock).await? == SeenLock::AsStrong)
        }
        Some(_) | None => Ok(true),
    }
}

/// Rejects features that EC2 would refuse only once the snapshot exists.
async fn check_features<E: Ec2>(service: &SnapshotService<E>, features: &SnapshotFeatures) -> Result<()> {
    if let Some(Lock { end: LockEnd::At(end), .. }) = features.lock
        && end <= service.context.clock.now()
    {
        let end = humantime::format_rfc3339_seconds(end);
        let message = format!("lock the snapshot until {end}: that time is in the past; set a later one");
        return Err(CloudErrorKind::InvalidArgument.error(message));
    }
    let zones = &features.fast_restore_zones;
    if zones.is_empty() { Ok(()) } else { check_fast_restore_zones(service, zones).await }
}

/// Adds the features that this process has not seen on the snapshot yet. The lock comes first: if EC2 refuses it, the
/// driver must delete the snapshot, which EC2 refuses once fast restores are enabled.
async fn apply_features<E: Ec2>(
    service: &SnapshotService<E>,
    taken: &Taken,
    features: &SnapshotFeatures,
    waiters: &Waiters,
) -> Result<()> {
    let id = &taken.snapshot.id;
    if let Some(lock) = &features.lock
        && !service.memory.is_locked(id, lock)
    {
        match taken.is_new {
            true => set_lock(service, &lock.of(id), waiters).await?,
            false => ensure_lock(service, id, lock, waiters).await?,
        }
        service.memory.record_locked(id, lock);
    }
    let zones = &features.fast_restore_zones;
    if !zones.is_empty() && !service.memory.has_fast_restores(id, zones) {
        enable_fast_restores(service, id, zones, waiters).await?;
        service.memory.record_fast_restores(id, zones);
    }
    Ok(())
}

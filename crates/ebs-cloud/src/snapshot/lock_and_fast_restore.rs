//! Adds fast restores and a lock to a snapshot. An existing lock must be described first ([`super::strength`]).

use ebs_ec2::{Ec2, FastRestoreFailure, LockSnapshot, SnapshotId, Snapshots, Waiters, ZoneName};

use super::SnapshotService;
use super::strength::is_as_strong;
use crate::error_map::map_error_about;
use crate::op_context::OpContext;
use crate::retry::{mutate, read};
use crate::{CloudError, CloudErrorKind, Lock, Object, Result, timeouts};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeenLock {
    /// The lock is as requested, or stronger.
    AsStrong,
    /// The snapshot is not locked, or the lock is weaker.
    Weaker,
    /// The driver's IAM policy does not permit it to describe the lock.
    Denied,
}

/// Rejects zones that the region does not have, before a snapshot is created.
pub(super) async fn check_fast_restore_zones<E: Ec2>(service: &SnapshotService<E>, zones: &[ZoneName]) -> Result<()> {
    let unknown = service.context.zones.unknown_among(zones).await;
    if unknown.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = unknown.iter().map(ZoneName::as_str).collect();
    let message = format!("fastSnapshotRestoreAvailabilityZones: the region has no zone {}", names.join(", "));
    Err(CloudErrorKind::InvalidArgument.error(message))
}

/// Enables fast restores of the snapshot in the zones. The error has EC2's code and message for each failed zone.
pub(super) async fn enable_fast_restores<E: Ec2>(
    service: &SnapshotService<E>,
    id: &SnapshotId,
    zones: &[ZoneName],
    waiters: &Waiters,
) -> Result<()> {
    let op = OpContext::start(format!("enable fast restores of snapshot {id}"), timeouts::SNAPSHOT, waiters);
    let ec2 = service.context.for_mutation(&op);
    let answer = mutate(&op, || ec2.enable_fast_snapshot_restores(id, zones)).await?;
    let restores = answer.map_err(|e| map_error_about(&op, Object::Snapshot(id.clone()), e))?;
    if restores.failures.is_empty() {
        return Ok(());
    }
    let failures: Vec<String> = restores.failures.iter().map(failure_text).collect();
    Err(CloudErrorKind::Internal.error(format!("{op}: {}", failures.join("; "))))
}

pub(super) async fn set_lock<E: Ec2>(
    service: &SnapshotService<E>,
    lock: &LockSnapshot,
    waiters: &Waiters,
) -> Result<()> {
    let id = &lock.snapshot;
    let op = OpContext::start(format!("lock snapshot {id}"), timeouts::SNAPSHOT, waiters);
    let ec2 = service.context.for_mutation(&op);
    mutate(&op, || ec2.lock_snapshot(lock)).await?.map_err(|e| map_error_about(&op, Object::Snapshot(id.clone()), e))
}

/// Locks an existing snapshot, unless EC2 shows that its lock is already as requested or stronger.
pub(super) async fn ensure_lock<E: Ec2>(
    service: &SnapshotService<E>,
    id: &SnapshotId,
    lock: &Lock,
    waiters: &Waiters,
) -> Result<()> {
    let seen = see_lock(service, id, lock).await?;
    if seen == SeenLock::AsStrong {
        return Ok(());
    }
    set_lock(service, &lock.of(id), waiters).await.map_err(|error| match seen {
        SeenLock::Denied if error.kind.is_final() => {
            let advice = "it may be locked already: allow ec2:DescribeLockedSnapshots, so that the driver can check";
            CloudError { message: format!("{error}; {advice}"), ..error }
        }
        _ => error,
    })
}

/// Compares the snapshot's lock with the requested one. Errors of this function are never final, because a lock may
/// exist.
pub(super) async fn see_lock<E: Ec2>(service: &SnapshotService<E>, id: &SnapshotId, wanted: &Lock) -> Result<SeenLock> {
    let step = format!("describe the lock of snapshot {id}");
    let ec2 = service.context.ec2.for_awaited_read(timeouts::DESCRIBE_TIMEOUT);
    match read(&ec2, &step, || ec2.describe_lock(id)).await {
        Ok(Some(lock)) if is_as_strong(&lock, wanted) => Ok(SeenLock::AsStrong),
        Ok(_) => Ok(SeenLock::Weaker),
        Err(error) if error.kind == CloudErrorKind::Unauthorized => {
            tracing::warn!(
                snapshot = %id, %error,
                "no permission to describe snapshot locks, locking the snapshot again: allow \
                 ec2:DescribeLockedSnapshots"
            );
            Ok(SeenLock::Denied)
        }
        Err(error) => Err(error.unproven()),
    }
}

fn failure_text(failure: &FastRestoreFailure) -> String {
    let zone = failure.zone.as_deref().unwrap_or("a zone");
    let code = failure.code.as_deref().map(|code| format!("{code}: ")).unwrap_or_default();
    format!("{zone}: {code}{}", failure.message)
}

//! What a snapshot can be given once it exists: fast restores and a lock. Both may be asked for again and again, so a
//! repeated request asks for them anew, also where the first attempt died in between (`controller.md` C19).

use ebs_ec2::{Ec2, FastRestoreFailure, LockSnapshot, Snapshots};
use ebs_types::{SnapshotId, Waiters, ZoneName};

use super::service::SnapshotService;
use crate::call::mutate;
use crate::op::Op;
use crate::refused::refused_about;
use crate::{CloudError, CloudErrorKind, Object, bounds};

impl<E: Ec2> SnapshotService<E> {
    /// Refuses zones that the region does not have, before anything is made for them. When EC2 does not list its zones
    /// it is left to judge; whether a zone has fast restores it judges in any case (`ebs-cloud.md` E22).
    ///
    /// # Errors
    /// `CloudErrorKind::InvalidArgument` names the zones.
    pub async fn check_fast_restore_zones(&self, zones: &[ZoneName]) -> Result<(), CloudError> {
        let unknown = self.context.zones.unknown_among(zones).await;
        if unknown.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = unknown.iter().map(ZoneName::as_str).collect();
        let message = format!("fastSnapshotRestoreAvailabilityZones: the region has no zone {}", names.join(", "));
        Err(CloudErrorKind::InvalidArgument.error(message))
    }

    /// Sees to it that volumes can be restored fast from the snapshot in these zones.
    ///
    /// # Errors
    /// `CloudErrorKind::Internal` has EC2's code and message for each zone that cannot have it.
    pub async fn enable_fast_restores(
        &self,
        id: &SnapshotId,
        zones: &[ZoneName],
        waiters: &Waiters,
    ) -> Result<(), CloudError> {
        let op = Op::start(format!("enable fast restores of snapshot {id}"), bounds::SNAPSHOT, waiters);
        let ec2 = self.context.for_mutation(&op);
        let answer = mutate(&op, || ec2.enable_fast_snapshot_restores(id, zones)).await?;
        let restores = answer.map_err(|e| refused_about(&op, Object::Snapshot(id.clone()), e))?;
        if restores.failures.is_empty() {
            return Ok(());
        }
        let failures: Vec<String> = restores.failures.iter().map(failure_text).collect();
        Err(CloudErrorKind::Internal.error(format!("{op}: {}", failures.join("; "))))
    }

    /// Locks the snapshot. EC2 judges the combination of what is given.
    ///
    /// # Errors
    /// `CloudErrorKind::InvalidArgument` for a combination that EC2 refuses.
    pub async fn lock(&self, lock: &LockSnapshot, waiters: &Waiters) -> Result<(), CloudError> {
        let id = &lock.snapshot;
        let op = Op::start(format!("lock snapshot {id}"), bounds::SNAPSHOT, waiters);
        let ec2 = self.context.for_mutation(&op);
        mutate(&op, || ec2.lock_snapshot(lock)).await?.map_err(|e| refused_about(&op, Object::Snapshot(id.clone()), e))
    }
}

fn failure_text(failure: &FastRestoreFailure) -> String {
    let zone = failure.zone.as_deref().unwrap_or("a zone");
    let code = failure.code.as_deref().map(|code| format!("{code}: ")).unwrap_or_default();
    format!("{zone}: {code}{}", failure.message)
}

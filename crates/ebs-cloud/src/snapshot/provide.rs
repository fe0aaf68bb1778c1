//! A snapshot with all that it is to have: taken, locked, restored fast.
//!
//! One that cannot be had as asked for is not left behind by a final error. Who may know it decides what becomes of it:
//! one that this process has taken and not reported is deleted, any other one stays, and the error is not final.
//!
//! Decision: `docs/decisions/0012-report-a-snapshot-ready-only-when-complete.md`.

use ebs_ec2::{Ec2, Snapshot};
use ebs_types::{SnapshotId, Waiters};

use super::create::snapshot_op;
use super::features::SeenLock;
use super::service::SnapshotService;
use crate::lease_terms::Sidecar;
use crate::op::Op;
use crate::{CloudError, CloudErrorKind, Ensured, Lock, LockEnd, SnapshotFeatures, SnapshotSpec};

impl<E: Ec2> SnapshotService<E> {
    /// Sees to it that the snapshot exists and has its features; it may still be `pending`. Success says that this process
    /// has seen fast restores and lock done, whatever an earlier one may have done.
    ///
    /// # Errors
    /// [`CloudError`]; final ones only when it is proven that no snapshot was left behind.
    pub async fn provide(
        &self,
        spec: &SnapshotSpec,
        features: &SnapshotFeatures,
        waiters: &Waiters,
    ) -> Result<Snapshot, CloudError> {
        let op = snapshot_op(spec, waiters);
        let provided = self.provide_within(&op, spec, features);
        let outcome = self.context.recent.serve(Sidecar::Snapshotter, waiters, provided).await;
        match &outcome {
            Ok(snapshot) => self.memory.note_reported(&snapshot.id),
            // The next attempt gets the error, instead of taking another snapshot that goes the same way.
            Err(error) if error.kind.is_final() && !waiters.any() => {
                self.memory.keep_error(spec, features, error.clone())
            }
            Err(_) => {}
        }
        outcome
    }

    async fn provide_within(
        &self,
        op: &Op<'_>,
        spec: &SnapshotSpec,
        features: &SnapshotFeatures,
    ) -> Result<Snapshot, CloudError> {
        if let Some(error) = self.memory.take_error(spec, features) {
            self.refused_unless_taken(op, spec, error).await?;
        }
        if let Err(error) = self.check_features(features).await {
            let taken = self.refused_unless_taken(op, spec, error.clone()).await?;
            if !self.has_features(&taken.id, features).await? {
                return Err(self.roll_back(op, &taken.id, error).await);
            }
        }
        let taken = self.create(spec, op.waiters).await?;
        match self.apply_features(&taken, features, op.waiters).await {
            Ok(()) => Ok(taken.into_inner()),
            Err(error) => Err(self.roll_back(op, &taken.into_inner().id, error).await),
        }
    }

    /// True when it has all of them: this process has seen it get them, or EC2 describes the lock.
    async fn has_features(&self, id: &SnapshotId, features: &SnapshotFeatures) -> Result<bool, CloudError> {
        let zones = &features.fast_restore_zones;
        if !(zones.is_empty() || self.memory.has_fast_restores(id, zones)) {
            return Ok(false);
        }
        match &features.lock {
            Some(lock) if !self.memory.is_locked(id, lock) => Ok(self.see_lock(id, lock).await? == SeenLock::AsStrong),
            Some(_) | None => Ok(true),
        }
    }

    /// Refuses what EC2 would refuse only once there is a snapshot.
    async fn check_features(&self, features: &SnapshotFeatures) -> Result<(), CloudError> {
        if let Some(Lock { end: LockEnd::At(end), .. }) = features.lock
            && end <= self.context.clock.now()
        {
            let end = humantime::format_rfc3339_seconds(end);
            let message = format!("lock the snapshot until {end}: that time is over, give a later one");
            return Err(CloudErrorKind::InvalidArgument.error(message));
        }
        let zones = &features.fast_restore_zones;
        if zones.is_empty() { Ok(()) } else { self.check_fast_restore_zones(zones).await }
    }

    /// Gives it what this process has not seen done yet. The lock first: EC2 does not delete a snapshot while fast restores
    /// of it are on, so one whose lock is refused could not be taken back.
    async fn apply_features(
        &self,
        taken: &Ensured<Snapshot>,
        features: &SnapshotFeatures,
        waiters: &Waiters,
    ) -> Result<(), CloudError> {
        let (Ensured::Created(Snapshot { id, .. }) | Ensured::Existing(Snapshot { id, .. })) = taken;
        if let Some(lock) = &features.lock
            && !self.memory.is_locked(id, lock)
        {
            match taken {
                Ensured::Created(_) => self.lock(&lock.of(id), waiters).await?,
                Ensured::Existing(_) => self.ensure_lock(id, lock, waiters).await?,
            }
            self.memory.note_locked(id, lock);
        }
        let zones = &features.fast_restore_zones;
        if !zones.is_empty() && !self.memory.has_fast_restores(id, zones) {
            self.enable_fast_restores(id, zones, waiters).await?;
            self.memory.note_fast_restores(id, zones);
        }
        Ok(())
    }

    /// Deletes a snapshot that cannot be as asked for, when nobody can know it; returns the error to report.
    pub(crate) async fn roll_back(&self, op: &Op<'_>, id: &SnapshotId, error: CloudError) -> CloudError {
        // It was there a moment ago: "not found" proves nothing yet.
        if !error.kind.is_final() || error.is_not_found() {
            return error.unproven();
        }
        let unknown = |message| CloudErrorKind::OutcomeUnknown.error(message);
        if !self.memory.is_unreported(id, self.context.recent.term_began(Sidecar::Snapshotter)) {
            let what = "is there and may be known, so it stays and is not reported ready";
            return unknown(format!(
                "{}; snapshot {id} {what}: remove what stands in the way, or delete it",
                with_ec2_message(&error)
            ));
        }
        match self.delete_within(op, id).await {
            Ok(()) => error,
            Err(second) => unknown(format!(
                "{}; and snapshot {id} could not be deleted: {}",
                with_ec2_message(&error),
                with_ec2_message(&second)
            )),
        }
    }
}

fn with_ec2_message(error: &CloudError) -> String {
    match &error.cause {
        Some(ec2) => format!("{error}: {ec2}"),
        None => error.to_string(),
    }
}

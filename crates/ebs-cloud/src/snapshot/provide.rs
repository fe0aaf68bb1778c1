//! Creates a snapshot with its lock and its fast restores.
//!
//! If a feature cannot be added, a final error must not leave the snapshot behind. A snapshot that this process took
//! and did not report is deleted. Any other snapshot stays, because a client may know it, and the error is not final.
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
    /// Creates the snapshot unless it exists, and adds its features. It may still be `pending`. Success means that this
    /// process has seen fast restores and lock done, independent of an earlier process.
    ///
    /// # Errors
    /// [`CloudError`]. An error is final only with the proof that no snapshot was left behind.
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
            // The next attempt gets this error instead of taking another snapshot that would fail too.
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

    /// Returns true if the snapshot has all features: this process has added them, or EC2 shows the lock.
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

    /// Refuses features that EC2 would refuse only after the snapshot exists.
    async fn check_features(&self, features: &SnapshotFeatures) -> Result<(), CloudError> {
        if let Some(Lock { end: LockEnd::At(end), .. }) = features.lock
            && end <= self.context.clock.now()
        {
            let end = humantime::format_rfc3339_seconds(end);
            let message = format!("lock the snapshot until {end}: that time is in the past; set a later one");
            return Err(CloudErrorKind::InvalidArgument.error(message));
        }
        let zones = &features.fast_restore_zones;
        if zones.is_empty() { Ok(()) } else { self.check_fast_restore_zones(zones).await }
    }

    /// Adds the features that this process has not seen done yet. The lock is first: EC2 does not delete a snapshot
    /// with fast restores, so a refused lock could not be rolled back.
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

    /// Deletes a snapshot that cannot have its features, if no client can know it. Returns the error to report.
    pub(crate) async fn roll_back(&self, op: &Op<'_>, id: &SnapshotId, error: CloudError) -> CloudError {
        // The snapshot existed a moment ago, so "not found" is not a proof yet.
        if !error.kind.is_final() || error.is_not_found() {
            return error.unproven();
        }
        let unknown = |message| CloudErrorKind::OutcomeUnknown.error(message);
        if !self.memory.is_unreported(id, self.context.recent.term_began(Sidecar::Snapshotter)) {
            let what = "exists and may have been reported, so the driver keeps it and does not report it ready";
            return unknown(format!("{}; snapshot {id} {what}: fix the cause or delete it", with_ec2_message(&error)));
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

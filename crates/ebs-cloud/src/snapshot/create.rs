//! Creates snapshots. CreateSnapshot has no client token, so a describe by name makes it idempotent.
//!
//! Decision: `docs/decisions/0012-report-a-snapshot-ready-only-when-complete.md`.

use ebs_ec2::{CreateSnapshot, Ec2, Ec2Error, ErrorClass, Snapshot, SnapshotState, Snapshots};
use ebs_types::{DriverName, Waiters};
use tokio::time::Instant;

use super::service::SnapshotService;
use crate::call::mutate;
use crate::describe::Verdict;
use crate::lease_terms::Sidecar;
use crate::op::Op;
use crate::recent_writes::Write;
use crate::refused::refused;
use crate::{CloudError, CloudErrorKind, Ensured, Object, SnapshotSpec, bounds};

impl<E: Ec2> SnapshotService<E> {
    /// Creates a snapshot of the name and source unless it exists. It may still be `pending`.
    /// [`SnapshotService::provide`] adds fast restores and locks.
    ///
    /// # Errors
    /// [`CloudError`]. An error is final only with the proof that no snapshot was left behind.
    pub async fn create(&self, spec: &SnapshotSpec, waiters: &Waiters) -> Result<Ensured<Snapshot>, CloudError> {
        self.context.recent.note_request_from(Sidecar::Snapshotter);
        let op = snapshot_op(spec, waiters);
        let request = CreateSnapshot {
            volume: spec.volume.clone(),
            description: format!("Created by AWS EBS CSI driver for volume {}", spec.volume),
            outpost_arn: spec.outpost_arn.clone(),
            tags: spec.tags.clone(),
        };
        let name = Write::SnapshotName(spec.name.clone());
        let mut made_by_us = false;
        loop {
            let settled_at = self.context.recent.absence_proven_from(&name, Sidecar::Snapshotter);
            if let Some(existing) = self.find_snapshot(&op, spec, settled_at).await? {
                let existing = self.unless_failed(&op, existing).await?;
                return Ok(if made_by_us { Ensured::Created(existing) } else { Ensured::Existing(existing) });
            }
            let ec2 = self.context.for_mutation(&op);
            let error = match mutate(&op, || ec2.create_snapshot(&request)).await? {
                Ok(snapshot) => {
                    self.context.recent.note_made(name, Object::Snapshot(snapshot.id.clone()));
                    self.memory.note_taken(&snapshot.id);
                    return Ok(Ensured::Created(snapshot));
                }
                Err(e) => e,
            };
            match error.class {
                ErrorClass::Ambiguous => {
                    tracing::info!(name: "v3", name = %spec.name, %error, "looking for the snapshot by its name");
                    made_by_us = true;
                    if self.context.recent.is_absent(&name, Sidecar::Snapshotter) {
                        self.memory.note_unclear(&spec.name);
                    }
                    self.context.recent.note(name.clone());
                }
                // EC2 accepts one snapshot per volume in 15 s. The previous one may be of this name, made by another
                // process and not listed yet, so describes follow until EC2 would list it.
                ErrorClass::SnapshotCooldown if Instant::now() + bounds::SETTLE < op.deadline => {
                    self.context.recent.note(name.clone());
                }
                _ => {
                    let found = self.refused_unless_taken(&op, spec, creation_refused(&op, spec, error)).await?;
                    return self.unless_failed(&op, found).await.map(Ensured::Existing);
                }
            }
        }
    }

    /// Returns the error if no snapshot of the name exists, and otherwise the snapshot or an error that is not final.
    pub(crate) async fn refused_unless_taken(
        &self,
        op: &Op<'_>,
        spec: &SnapshotSpec,
        error: CloudError,
    ) -> Result<Snapshot, CloudError> {
        let name = Write::SnapshotName(spec.name.clone());
        if !error.kind.is_final() || self.context.recent.is_absent(&name, Sidecar::Snapshotter) {
            return Err(error);
        }
        let proven_from = self.context.recent.absence_proven_from(&name, Sidecar::Snapshotter);
        self.find_snapshot(op, spec, proven_from).await?.ok_or(error)
    }

    /// Returns the snapshot of the name. `None` if a describe sent at `settled_at` or later lists none.
    async fn find_snapshot(
        &self,
        op: &Op<'_>,
        spec: &SnapshotSpec,
        settled_at: Instant,
    ) -> Result<Option<Snapshot>, CloudError> {
        let name = Write::SnapshotName(spec.name.clone());
        // Describes may still list a snapshot that another process deleted, and may have reported a final error for.
        let sole_from = self.context.recent.sole_from(Sidecar::Snapshotter);
        let term_began = self.context.recent.term_began(Sidecar::Snapshotter);
        let decide = |found: Vec<Snapshot>, sent: Instant| {
            // Describes may still list a snapshot that this process deleted.
            let found =
                found.into_iter().filter(|s| !self.context.recent.is_recent(&Write::SnapshotDeletion(s.id.clone())));
            match matching_snapshot(op, spec, found.collect()) {
                Ok(None) if sent < settled_at => Verdict::Waiting,
                Err(_) if sent < sole_from => Verdict::Waiting,
                Ok(Some(s)) if sent < sole_from && !self.memory.is_taken(&s.id, term_began) => Verdict::Waiting,
                Ok(None) => {
                    self.context.recent.note_absence(&name, Sidecar::Snapshotter, sent);
                    Verdict::Done(Ok(None))
                }
                found => Verdict::Done(found),
            }
        };
        let found = self.context.waiter.snapshots(op, &spec.name, decide).await.map_err(CloudError::unproven)??;
        if let Some(snapshot) = &found {
            self.context.recent.note_seen(&Object::Snapshot(snapshot.id.clone()));
            self.memory.note_found(&spec.name, &snapshot.id);
        }
        Ok(found)
    }

    /// Refuses a failed snapshot. If this process made it and did not report it, deletes it before a final error. If a
    /// client may know it, it stays, and the error is not final.
    async fn unless_failed(&self, op: &Op<'_>, found: Snapshot) -> Result<Snapshot, CloudError> {
        if found.state != SnapshotState::Error {
            return Ok(found);
        }
        let why = found.status_message.as_deref().unwrap_or("EC2 does not say why");
        let message = format!("{op}: {} has failed ({why})", found.id);
        let error = CloudErrorKind::FailedPrecondition.error(message);
        Err(self.roll_back(op, &found.id, error).await)
    }
}

pub(crate) fn snapshot_op<'a>(spec: &SnapshotSpec, waiters: &'a Waiters) -> Op<'a> {
    Op::start(format!("create snapshot {:?} of {}", spec.name, spec.volume), bounds::SNAPSHOT, waiters)
}

fn creation_refused(op: &Op<'_>, spec: &SnapshotSpec, error: Ec2Error) -> CloudError {
    match error.class {
        ErrorClass::VolumeNotFound | ErrorClass::MalformedId => {
            let object = Object::Volume(spec.volume.clone());
            CloudError::source_not_found(object).caused_by(error)
        }
        _ => refused(op, error),
    }
}

/// Returns the snapshot of the name if it matches the request.
fn matching_snapshot(op: &Op<'_>, spec: &SnapshotSpec, found: Vec<Snapshot>) -> Result<Option<Snapshot>, CloudError> {
    let named = |s: &Snapshot| s.tags.get(DriverName::SNAPSHOT_NAME_TAG) == Some(&spec.name);
    let mut found: Vec<Snapshot> = found.into_iter().filter(named).collect();
    let Some(snapshot) = found.pop() else { return Ok(None) };
    let id = &snapshot.id;
    let other = |message| Err(CloudErrorKind::AlreadyExists.error(message));
    if !found.is_empty() {
        let ids: Vec<_> = found.iter().map(|s| s.id.as_str()).chain([id.as_str()]).collect();
        return other(format!("{op}: several snapshots carry that name: {}; delete all but one", ids.join(", ")));
    }
    if snapshot.source_volume.as_ref() != Some(&spec.volume) {
        let source = snapshot.source_volume.as_ref().map_or("another volume", |v| v.as_str());
        return other(format!("{op}: {id} carries that name and is of {source}"));
    }
    if spec.outpost_arn.is_some() && snapshot.outpost_arn != spec.outpost_arn {
        let place = snapshot.outpost_arn.as_deref().unwrap_or("the region");
        return other(format!("{op}: {id} carries that name and is in {place}"));
    }
    Ok(Some(snapshot))
}

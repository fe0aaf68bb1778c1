//! Snapshots. CreateSnapshot has no client token: it is idempotent by looking for the name (`decisions.md` D-13).

use ebs_ec2::{CreateSnapshot, Ec2, Ec2Error, ErrorClass, Snapshot, SnapshotState, Snapshots};
use ebs_types::{DriverName, Waiters};
use tokio::time::Instant;

use crate::call::mutate;
use crate::describe::Verdict;
use crate::error::refused;
use crate::lease_terms::Sidecar;
use crate::op::Op;
use crate::recent_writes::Write;
use crate::{Cloud, CloudError, Ensured, Object, SnapshotSpec, bounds};

impl<E: Ec2> Cloud<E> {
    /// Sees to it that a snapshot of that name and source exists; it may still be `pending`. Fast restores and locks
    /// come with [`Cloud::provide_snapshot`].
    ///
    /// # Errors
    /// [`CloudError`]; final ones only when it is proven that no snapshot was left behind.
    pub async fn create_snapshot(
        &self,
        spec: &SnapshotSpec,
        waiters: &Waiters,
    ) -> Result<Ensured<Snapshot>, CloudError> {
        self.recent.note_request_from(Sidecar::Snapshotter);
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
            let settled_at = self.recent.absence_proven_from(&name, Sidecar::Snapshotter);
            if let Some(existing) = self.find_snapshot(&op, spec, settled_at).await? {
                let existing = self.unless_failed(&op, existing).await?;
                return Ok(if made_by_us { Ensured::Created(existing) } else { Ensured::Existing(existing) });
            }
            let error = match mutate(&op, || self.ec2.create_snapshot(&request)).await? {
                Ok(snapshot) => {
                    self.recent.note_made(name, Object::Snapshot(snapshot.id.clone()));
                    self.snapshots.note_taken(&snapshot.id);
                    return Ok(Ensured::Created(snapshot));
                }
                Err(e) => e,
            };
            match error.class {
                ErrorClass::Ambiguous => {
                    tracing::info!(name = %spec.name, %error, "looking for the snapshot by its name");
                    made_by_us = true;
                    if self.recent.is_absent(&name, Sidecar::Snapshotter) {
                        self.snapshots.note_unclear(&spec.name);
                    }
                    self.recent.note(name.clone());
                }
                // EC2 takes one snapshot of a volume in 15 s. The one that was taken may be ours, by another process
                // and not shown yet, so this too is followed by looks until it would be (`ebs-cloud.md` E24).
                ErrorClass::SnapshotCooldown if Instant::now() + bounds::SETTLE < op.deadline => {
                    self.recent.note(name.clone());
                }
                _ => {
                    let found = self.refused_unless_taken(&op, spec, creation_refused(&op, spec, error)).await?;
                    return self.unless_failed(&op, found).await.map(Ensured::Existing);
                }
            }
        }
    }

    /// Gives the error on proof that there is no snapshot of the name; otherwise the snapshot, or an error that is not
    /// final (`decisions.md` D-27).
    pub(crate) async fn refused_unless_taken(
        &self,
        op: &Op<'_>,
        spec: &SnapshotSpec,
        error: CloudError,
    ) -> Result<Snapshot, CloudError> {
        let name = Write::SnapshotName(spec.name.clone());
        if !error.is_final() || self.recent.is_absent(&name, Sidecar::Snapshotter) {
            return Err(error);
        }
        let proven_from = self.recent.absence_proven_from(&name, Sidecar::Snapshotter);
        self.find_snapshot(op, spec, proven_from).await?.ok_or(error)
    }

    /// The snapshot of that name; `None` when a describe sent from then on shows none.
    async fn find_snapshot(
        &self,
        op: &Op<'_>,
        spec: &SnapshotSpec,
        settled_at: Instant,
    ) -> Result<Option<Snapshot>, CloudError> {
        let name = Write::SnapshotName(spec.name.clone());
        // Another process may have deleted what stands in the way, and describes still show it.
        let conflict_from = self.recent.sole_from(Sidecar::Snapshotter);
        let found = self
            .waiter
            .snapshots(op, &spec.name, |found, sent| {
                // Describes may still show what we have deleted.
                let found =
                    found.into_iter().filter(|s| !self.recent.is_recent(&Write::SnapshotDeletion(s.id.clone())));
                match matching_snapshot(op, spec, found.collect()) {
                    Ok(None) if sent < settled_at => Verdict::Waiting,
                    Err(_) if sent < conflict_from => Verdict::Waiting,
                    Ok(None) => {
                        self.recent.note_absence(&name, Sidecar::Snapshotter, sent);
                        Verdict::Done(Ok(None))
                    }
                    found => Verdict::Done(found),
                }
            })
            .await
            .map_err(CloudError::unproven)??;
        if let Some(snapshot) = &found {
            self.recent.note_seen(&Object::Snapshot(snapshot.id.clone()));
            self.snapshots.note_found(&spec.name, &snapshot.id);
        }
        Ok(found)
    }

    /// A snapshot that has failed is of no use. One that this process has taken and not reported is deleted before
    /// that is final; one that somebody may know stays, and the error is not final (`decisions.md` D-28).
    async fn unless_failed(&self, op: &Op<'_>, found: Snapshot) -> Result<Snapshot, CloudError> {
        if found.state != SnapshotState::Error {
            return Ok(found);
        }
        let why = found.status_message.as_deref().unwrap_or("EC2 does not say why");
        let message = format!("{}: {} has failed ({why})", op.what, found.id);
        let error = CloudError::FailedPrecondition { message, cause: None };
        Err(self.roll_back(op, &found.id, error).await)
    }
}

/// The operation of taking a snapshot.
pub(crate) fn snapshot_op<'a>(spec: &SnapshotSpec, waiters: &'a Waiters) -> Op<'a> {
    Op::start(format!("create snapshot {:?} of {}", spec.name, spec.volume), bounds::SNAPSHOT, waiters)
}

/// What EC2's refusal to take a snapshot means.
fn creation_refused(op: &Op<'_>, spec: &SnapshotSpec, error: Ec2Error) -> CloudError {
    match error.class {
        ErrorClass::VolumeNotFound | ErrorClass::MalformedId => {
            let object = Object::Volume(spec.volume.clone());
            CloudError::SourceNotFound { object, cause: Some(Box::new(error)) }
        }
        _ => refused(&op.what, error),
    }
}

/// Whether what carries the name is what is wanted.
fn matching_snapshot(op: &Op<'_>, spec: &SnapshotSpec, found: Vec<Snapshot>) -> Result<Option<Snapshot>, CloudError> {
    let named = |s: &Snapshot| s.tags.get(DriverName::SNAPSHOT_NAME_TAG) == Some(&spec.name);
    let mut found: Vec<Snapshot> = found.into_iter().filter(named).collect();
    let Some(snapshot) = found.pop() else { return Ok(None) };
    let id = &snapshot.id;
    let other = |message| Err(CloudError::AlreadyExists { message, cause: None });
    if !found.is_empty() {
        let ids: Vec<_> = found.iter().map(|s| s.id.as_str()).chain([id.as_str()]).collect();
        return other(format!(
            "{}: several snapshots carry that name: {}; delete all but one",
            op.what,
            ids.join(", ")
        ));
    }
    if snapshot.source_volume.as_ref() != Some(&spec.volume) {
        let source = snapshot.source_volume.as_ref().map_or("another volume", |v| v.as_str());
        return other(format!("{}: {id} carries that name and is of {source}", op.what));
    }
    if spec.outpost_arn.is_some() && snapshot.outpost_arn != spec.outpost_arn {
        let place = snapshot.outpost_arn.as_deref().unwrap_or("the region");
        return other(format!("{}: {id} carries that name and is in {place}", op.what));
    }
    Ok(Some(snapshot))
}

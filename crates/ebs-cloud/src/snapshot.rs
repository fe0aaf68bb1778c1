//! Snapshots. CreateSnapshot has no client token: it is idempotent by looking for the name (`decisions.md` D-13).

use ebs_ec2::{CreateSnapshot, Ec2, ErrorClass, Snapshot, SnapshotState, Snapshots};
use ebs_types::{DriverName, SnapshotId, Waiters};
use tokio::time::Instant;

use crate::call::mutate;
use crate::error::refused;
use crate::op::Op;
use crate::recent::Mark;
use crate::wait::{FirstLook, Verdict};
use crate::{Cloud, CloudError, Ensured, Object, SnapshotSpec, bounds};

impl<E: Ec2> Cloud<E> {
    /// Sees to it that a snapshot of that name and source exists; it may still be `pending`. Fast restores and locks
    /// are [`Cloud::enable_fast_restores`] and [`Cloud::lock_snapshot`], to be called after every success of this.
    ///
    /// # Errors
    /// [`CloudError`]; final ones only when it is proven that no snapshot was left behind.
    pub async fn create_snapshot(
        &self,
        spec: &SnapshotSpec,
        waiters: &Waiters,
    ) -> Result<Ensured<Snapshot>, CloudError> {
        let op = Op::start(format!("create snapshot {:?} of {}", spec.name, spec.volume), bounds::SNAPSHOT, waiters);
        let request = CreateSnapshot {
            volume: spec.volume.clone(),
            description: format!("Created by AWS EBS CSI driver for volume {}", spec.volume),
            outpost_arn: spec.outpost_arn.clone(),
            tags: spec.tags.clone(),
        };
        let mut made_by_us = false;
        loop {
            if let Some(existing) = self.find_snapshot(&op, spec).await? {
                return Ok(if made_by_us { Ensured::Created(existing) } else { Ensured::Existing(existing) });
            }
            let mark = Mark::SnapshotName(spec.name.clone());
            let error = match mutate(&op, || self.ec2.create_snapshot(&request)).await? {
                Ok(snapshot) => {
                    self.recent.note(mark);
                    return Ok(Ensured::Created(snapshot));
                }
                Err(e) => e,
            };
            match error.class {
                ErrorClass::Ambiguous => {
                    tracing::info!(name = %spec.name, %error, "looking for the snapshot by its name");
                    made_by_us = true;
                    self.recent.note(mark);
                }
                // EC2 takes one snapshot of a volume in 15 s. The one that was taken may be ours, by another process
                // and not shown yet, so this too is followed by looks until it would be (`ebs-cloud.md` E24).
                ErrorClass::SnapshotCooldown if Instant::now() + bounds::SETTLE < op.deadline => {
                    self.recent.note(mark);
                }
                ErrorClass::VolumeNotFound | ErrorClass::MalformedId => {
                    let object = Object::Volume(spec.volume.clone());
                    return Err(CloudError::SourceNotFound { object, cause: Some(Box::new(error)) });
                }
                _ => return Err(refused(&op.what, error)),
            }
        }
    }

    /// The snapshot of that name; `None` only on proof that there is none.
    async fn find_snapshot(&self, op: &Op<'_>, spec: &SnapshotSpec) -> Result<Option<Snapshot>, CloudError> {
        let mark = Mark::SnapshotName(spec.name.clone());
        let settled_at = self.recent.settled_for_all_at(&mark);
        let found = self
            .watch
            .snapshots(op, &spec.name, |found, sent| {
                let settled = sent >= settled_at;
                // Looks may still show what we have deleted.
                let found = found.into_iter().filter(|s| !self.recent.is_marked(&Mark::SnapshotDeletion(s.id.clone())));
                match judge(op, spec, found.collect()) {
                    Ok(None) if !settled => Verdict::Waiting,
                    Ok(found) => Verdict::Done(found),
                    Err(e) => Verdict::Failed(e),
                }
            })
            .await
            .map_err(unproven)?;
        Ok(found)
    }

    /// Sees to it that the snapshot is deleted. One that does not exist is a success.
    ///
    /// # Errors
    /// [`CloudError::FailedPrecondition`] while it is in use or locked.
    pub async fn delete_snapshot(&self, id: &SnapshotId, waiters: &Waiters) -> Result<(), CloudError> {
        let op = Op::start(format!("delete snapshot {id}"), bounds::DELETE, waiters);
        loop {
            let error = match mutate(&op, || self.ec2.delete_snapshot(id)).await? {
                Ok(()) => break,
                Err(e) => e,
            };
            match error.class {
                ErrorClass::SnapshotNotFound | ErrorClass::MalformedId => break,
                ErrorClass::Ambiguous if self.is_snapshot_gone(&op, id).await? => break,
                ErrorClass::Ambiguous if Instant::now() < op.deadline => {}
                _ => return Err(refused(&op.what, error)),
            }
        }
        self.recent.note(Mark::SnapshotDeletion(id.clone()));
        Ok(())
    }

    /// The snapshot, once it is sure that there is one or none: one taken a moment ago may not be shown yet.
    pub(crate) async fn snapshot_for_sure(&self, op: &Op<'_>, id: &SnapshotId) -> Result<Option<Snapshot>, CloudError> {
        let settled_at = Instant::now() + bounds::SETTLE;
        self.watch
            .snapshot(op, FirstLook::Now, id, |found, sent| {
                if found.is_some() || sent >= settled_at { Verdict::Done(found) } else { Verdict::Waiting }
            })
            .await
    }

    /// Whether the snapshot is gone, once looks can neither show the time before the call nor that before the snapshot
    /// was taken.
    async fn is_snapshot_gone(&self, op: &Op<'_>, id: &SnapshotId) -> Result<bool, CloudError> {
        let settled_at = Instant::now() + bounds::SETTLE;
        self.watch
            .snapshot(op, FirstLook::Now, id, |found, sent| {
                let settled = sent >= settled_at;
                if settled { Verdict::Done(found.is_none()) } else { Verdict::Waiting }
            })
            .await
    }

    /// The snapshot as EC2 describes it now; `None` when there is none.
    ///
    /// # Errors
    /// [`CloudError::Unavailable`], [`CloudError::Unauthorized`].
    pub async fn snapshot(&self, id: &SnapshotId) -> Result<Option<Snapshot>, CloudError> {
        self.lookups.snapshot(None, id).await
    }
}

/// Without a look it is not known whether an earlier attempt has left a snapshot behind, so the error must not be final.
fn unproven(error: CloudError) -> CloudError {
    match error {
        CloudError::Unauthorized { message, cause } | CloudError::Internal { message, cause } => {
            CloudError::OutcomeUnknown { message, cause }
        }
        other => other,
    }
}

/// Whether what carries the name is what is wanted.
fn judge(op: &Op<'_>, spec: &SnapshotSpec, found: Vec<Snapshot>) -> Result<Option<Snapshot>, CloudError> {
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
    if snapshot.state == SnapshotState::Error {
        let why = snapshot.status_message.as_deref().unwrap_or("EC2 does not say why");
        let message = format!("{}: {id} has failed ({why}); delete it, then try again", op.what);
        return Err(CloudError::FailedPrecondition { message, cause: None });
    }
    Ok(Some(snapshot))
}

//! DeleteSnapshot.

use ebs_ec2::{Ec2, ErrorClass, Snapshots};
use ebs_types::{SnapshotId, Waiters};
use tokio::time::Instant;

use crate::call::mutate;
use crate::describe::{FirstPoll, Verdict};
use crate::error::refused;
use crate::lease_terms::Sidecar;
use crate::op::Op;
use crate::recent_writes::Write;
use crate::{Cloud, CloudError, Object, bounds};

impl<E: Ec2> Cloud<E> {
    /// Sees to it that the snapshot is deleted. One that does not exist is a success.
    ///
    /// # Errors
    /// [`CloudError::FailedPrecondition`] while it is in use or locked.
    pub async fn delete_snapshot(&self, id: &SnapshotId, waiters: &Waiters) -> Result<(), CloudError> {
        self.recent.note_request_from(Sidecar::Snapshotter);
        let op = Op::start(format!("delete snapshot {id}"), bounds::DELETE, waiters);
        let outcome = self.remove_snapshot(&op, id).await;
        if waiters.any() {
            self.recent.note_request_from(Sidecar::Snapshotter);
        }
        outcome
    }

    /// The same as a part of another operation.
    pub(crate) async fn remove_snapshot(&self, op: &Op<'_>, id: &SnapshotId) -> Result<(), CloudError> {
        loop {
            let asked = Instant::now();
            let error = match mutate(op, || self.ec2.delete_snapshot(id)).await? {
                Ok(()) => break,
                Err(e) => e,
            };
            let gone_from = match error.class {
                ErrorClass::MalformedId => break,
                ErrorClass::SnapshotNotFound if self.recent.is_recent(&Write::SnapshotDeletion(id.clone())) => break,
                // No better than a look: it may be an answer from before the creation (`decisions.md` D-26).
                ErrorClass::SnapshotNotFound => {
                    let gone_from = self.recent.gone_from(&Object::Snapshot(id.clone()), Sidecar::Snapshotter);
                    if asked >= gone_from {
                        break;
                    }
                    gone_from
                }
                ErrorClass::Ambiguous => Instant::now() + bounds::SETTLE,
                _ => return Err(refused(&op.what, error)),
            };
            if self.is_snapshot_gone(op, id, gone_from).await? {
                break;
            }
            if Instant::now() >= op.deadline {
                return Err(refused(&op.what, error).unproven());
            }
        }
        self.recent.note(Write::SnapshotDeletion(id.clone()));
        Ok(())
    }

    /// Whether the snapshot is gone, once describes cannot show the time before the call any more, nor, from
    /// `gone_from` on, that before the snapshot was taken.
    async fn is_snapshot_gone(&self, op: &Op<'_>, id: &SnapshotId, gone_from: Instant) -> Result<bool, CloudError> {
        let settled_at = Instant::now() + bounds::SETTLE;
        self.waiter
            .snapshot(op, FirstPoll::Now, id, |found, sent| match found {
                Some(_) if sent >= settled_at => Verdict::Done(false),
                None if sent >= gone_from => Verdict::Done(true),
                None | Some(_) => Verdict::Waiting,
            })
            .await
    }
}

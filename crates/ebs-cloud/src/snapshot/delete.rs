//! DeleteSnapshot.

use ebs_ec2::{Ec2, ErrorClass, Snapshot, Snapshots};
use ebs_types::{SnapshotId, Waiters};
use tokio::time::Instant;

use super::service::SnapshotService;
use crate::call::mutate;
use crate::describe::{FirstPoll, Verdict};
use crate::lease_terms::Sidecar;
use crate::op::Op;
use crate::recent_writes::Write;
use crate::refused::refused;
use crate::{CloudError, Object, bounds};

impl<E: Ec2> SnapshotService<E> {
    /// Sees to it that the snapshot is deleted. One that does not exist is a success.
    ///
    /// # Errors
    /// `CloudErrorKind::FailedPrecondition` while it is in use or locked.
    pub async fn delete(&self, id: &SnapshotId, waiters: &Waiters) -> Result<(), CloudError> {
        let op = Op::start(format!("delete snapshot {id}"), bounds::DELETE, waiters);
        self.context.recent.serve(Sidecar::Snapshotter, waiters, self.delete_within(&op, id)).await
    }

    pub(crate) async fn delete_within(&self, op: &Op<'_>, id: &SnapshotId) -> Result<(), CloudError> {
        loop {
            let asked = Instant::now();
            let ec2 = self.context.for_mutation(op);
            let error = match mutate(op, || ec2.delete_snapshot(id)).await? {
                Ok(()) => break,
                Err(e) => e,
            };
            let gone_from = match error.class {
                ErrorClass::MalformedId => break,
                ErrorClass::SnapshotNotFound if self.context.recent.is_recent(&Write::SnapshotDeletion(id.clone())) => {
                    break;
                }
                // No better than a look: it may be an answer from before the creation (`decisions.md` D-26).
                ErrorClass::SnapshotNotFound => {
                    let gone_from = self.context.recent.gone_from(&Object::Snapshot(id.clone()), Sidecar::Snapshotter);
                    if asked >= gone_from {
                        break;
                    }
                    gone_from
                }
                ErrorClass::Ambiguous => Instant::now() + bounds::SETTLE,
                _ => return Err(refused(op, error)),
            };
            if self.is_snapshot_gone(op, id, gone_from).await? {
                break;
            }
            if Instant::now() >= op.deadline {
                return Err(refused(op, error).unproven());
            }
        }
        self.context.recent.note(Write::SnapshotDeletion(id.clone()));
        Ok(())
    }

    /// Whether the snapshot is gone, once describes cannot show the time before the call any more, nor, from
    /// `gone_from` on, that before the snapshot was taken.
    async fn is_snapshot_gone(&self, op: &Op<'_>, id: &SnapshotId, gone_from: Instant) -> Result<bool, CloudError> {
        let settled_at = Instant::now() + bounds::SETTLE;
        let decide = |found: Option<Snapshot>, sent: Instant| match found {
            Some(_) if sent >= settled_at => Verdict::Done(false),
            None if sent >= gone_from => Verdict::Done(true),
            None | Some(_) => Verdict::Waiting,
        };
        self.context.waiter.snapshot(op, FirstPoll::Now, id, decide).await
    }
}

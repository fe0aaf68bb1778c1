//! DeleteSnapshot.

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Snapshot, Snapshots};
use ebs_types::{SnapshotId, Waiters};
use tokio::time::Instant;

use super::service::SnapshotService;
use crate::call::mutate;
use crate::describe::{FirstPoll, Verdict};
use crate::lease_terms::Sidecar;
use crate::op::Op;
use crate::recent_writes::Write;
use crate::refused::refused;
use crate::{CloudError, CloudErrorKind, Object, bounds};

impl<E: Ec2> SnapshotService<E> {
    /// Deletes the snapshot. A snapshot that does not exist is a success.
    ///
    /// # Errors
    /// `CloudErrorKind::FailedPrecondition` while it is in use, locked, or enabled for fast restores in a zone.
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
                // This is as stale as a describe: it may be from before the creation.
                ErrorClass::SnapshotNotFound => {
                    let gone_from = self.context.recent.gone_from(&Object::Snapshot(id.clone()), Sidecar::Snapshotter);
                    if asked >= gone_from {
                        break;
                    }
                    gone_from
                }
                ErrorClass::Ambiguous => Instant::now() + bounds::SETTLE,
                ErrorClass::FastRestoresEnabled => return Err(is_restored_fast(op, id, error)),
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

    /// Returns whether the snapshot is gone. The describe must not show the time before the call. An empty one must be
    /// sent at `gone_from` or later, so that it does not show the time before the creation.
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

/// The driver's policies do not permit it to disable fast restores, so an administrator must.
fn is_restored_fast(op: &Op<'_>, id: &SnapshotId, error: Ec2Error) -> CloudError {
    let zones = zones_named(&error.message).unwrap_or("some zones");
    let message = format!(
        "{op}: fast snapshot restores of {id} are enabled in {zones}; run aws ec2 disable-fast-snapshot-restores for \
         these zones"
    );
    CloudErrorKind::FailedPrecondition.error(message).caused_by(error)
}

/// Returns the zones in "The snapshot snap-1 is currently enabled for fast restores in us-west-2a, us-west-2b. Fast …".
fn zones_named(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("for fast restores in ")?;
    Some(rest.split_once(". ").map_or(rest, |(zones, _)| zones).trim_end_matches('.')).filter(|zones| !zones.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_fast_restores_are_parsed_from_the_refusal() {
        let one =
            "The snapshot snap-1 is currently enabled for fast restores in us-west-2a. Fast snapshot restores must";
        assert_eq!(zones_named(one), Some("us-west-2a"));
        assert_eq!(
            zones_named("x is enabled for fast restores in us-west-2a, us-west-2b."),
            Some("us-west-2a, us-west-2b")
        );
        assert_eq!(zones_named("it is enabled for fast restores"), None);
    }
}

//! DeleteSnapshot.

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Snapshot, SnapshotId, Snapshots};
use tokio::time::Instant;

use super::SnapshotService;
use crate::describe::{FirstPoll, Verdict};
use crate::error_map::map_error;
use crate::lease_terms::Sidecar;
use crate::op_context::OpContext;
use crate::recent_writes::Write;
use crate::retry::mutate;
use crate::{CloudError, CloudErrorKind, Object, Result, timeouts};

pub(super) async fn delete<E: Ec2>(service: &SnapshotService<E>, op: &OpContext<'_>, id: &SnapshotId) -> Result<()> {
    loop {
        let asked = Instant::now();
        let ec2 = service.context.for_mutation(op);
        let error = match mutate(op, || ec2.delete_snapshot(id)).await? {
            Ok(()) => break,
            Err(e) => e,
        };
        let gone_from = match error.class {
            ErrorClass::MalformedId => break,
            ErrorClass::SnapshotNotFound if service.context.recent.is_recent(&Write::SnapshotDeletion(id.clone())) => {
                break;
            }
            // The refusal may be as stale as a describe and show the time before the creation.
            ErrorClass::SnapshotNotFound => {
                let gone_from = service.context.recent.gone_from(&Object::Snapshot(id.clone()), Sidecar::Snapshotter);
                if asked >= gone_from {
                    break;
                }
                gone_from
            }
            ErrorClass::Ambiguous => Instant::now() + timeouts::SETTLE,
            ErrorClass::FastRestoresEnabled => return Err(is_restored_fast(op, id, error)),
            _ => return Err(map_error(op, error)),
        };
        if is_snapshot_gone(service, op, id, gone_from).await? {
            break;
        }
        if Instant::now() >= op.deadline {
            return Err(map_error(op, error).unproven());
        }
    }
    service.context.recent.record_write(Write::SnapshotDeletion(id.clone()));
    Ok(())
}

/// Returns true if the snapshot is gone. "Listed" counts only if the describe shows the state after DeleteSnapshot.
/// "Not listed" counts only if the describe was sent at `gone_from` or later, so that it shows the state after the
/// creation.
async fn is_snapshot_gone<E: Ec2>(
    service: &SnapshotService<E>,
    op: &OpContext<'_>,
    id: &SnapshotId,
    gone_from: Instant,
) -> Result<bool> {
    let settled_at = Instant::now() + timeouts::SETTLE;
    let decide = |found: Option<Snapshot>, sent: Instant| match found {
        Some(_) if sent >= settled_at => Verdict::Done(false),
        None if sent >= gone_from => Verdict::Done(true),
        None | Some(_) => Verdict::Waiting,
    };
    service.context.describer.await_snapshot(op, FirstPoll::Now, id, decide).await
}
/// Deletes a snapshot whose features could not be added, unless a client may know it. Returns the error to report.
pub(super) async fn roll_back<E: Ec2>(
    service: &SnapshotService<E>,
    op: &OpContext<'_>,
    id: &SnapshotId,
    error: CloudError,
) -> CloudError {
    // The snapshot existed a moment ago, so "not found" is not a proof yet.
    if !error.kind.is_final() || error.is_not_found() {
        return error.unproven();
    }
    let unknown = |message| CloudErrorKind::OutcomeUnknown.error(message);
    if !service.memory.is_unreported(id, service.context.recent.leases.began(Sidecar::Snapshotter)) {
        let what = "exists and a client may know its id, so the driver keeps it and does not report it as ready";
        return unknown(format!(
            "{}; snapshot {id} {what}: fix the cause or delete the snapshot",
            with_ec2_message(&error)
        ));
    }
    match delete(service, op, id).await {
        Ok(()) => error,
        Err(second) => {
            let (first, second) = (with_ec2_message(&error), with_ec2_message(&second));
            unknown(format!("{first}; and snapshot {id} could not be deleted: {second}"))
        }
    }
}

fn with_ec2_message(error: &CloudError) -> String {
    error.cause.as_ref().map_or_else(|| error.to_string(), |ec2| format!("{error}: {ec2}"))
}

/// Returns the error for a snapshot with fast restores, which the driver has no IAM permission to disable.
fn is_restored_fast(op: &OpContext<'_>, id: &SnapshotId, error: Ec2Error) -> CloudError {
    let zones = zones_named(&error.message).unwrap_or("some zones");
    let message = format!(
        "{op}: fast snapshot restores of {id} are enabled in {zones}; run aws ec2 disable-fast-snapshot-restores for \
         these zones"
    );
    CloudErrorKind::FailedPrecondition.error(message).caused_by(error)
}

/// Extracts the zones from "The snapshot snap-1 is … enabled for fast restores in us-west-2a, us-west-2b. Fast …".
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

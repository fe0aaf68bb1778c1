//! DeleteVolume.

use ebs_ec2::{Ec2, ErrorClass, Volume, VolumeId, VolumeState, Volumes};
use tokio::time::Instant;

use super::VolumeService;
use crate::describe::{FirstPoll, Verdict};
use crate::error_map::map_error;
use crate::lease_terms::Sidecar;
use crate::op_context::OpContext;
use crate::recent_writes::Write;
use crate::retry::mutate;
use crate::{Object, Result, timeouts};

enum AfterRefusal {
    /// The volume is gone or being deleted, which is irreversible.
    Deleting,
    /// The volume exists and is in a state in which it could be deleted.
    Present,
    /// Nothing blocks the deletion any more, so call DeleteVolume again.
    Retry,
}

pub(super) async fn delete<E: Ec2>(service: &VolumeService<E>, op: &OpContext<'_>, id: &VolumeId) -> Result<()> {
    loop {
        let asked = Instant::now();
        let ec2 = service.context.for_mutation(op);
        let error = match mutate(op, || ec2.delete_volume(id)).await? {
            Ok(()) => break,
            Err(e) => e,
        };
        let gone_from = match error.class {
            ErrorClass::MalformedId => break,
            ErrorClass::VolumeNotFound if service.context.recent.is_recent(&Write::Deletion(id.clone())) => break,
            // The refusal may be as stale as a describe and reflect the state before the creation.
            ErrorClass::VolumeNotFound => {
                let gone_from = service.context.recent.gone_from(&Object::Volume(id.clone()), Sidecar::Provisioner);
                if asked >= gone_from {
                    break;
                }
                gone_from
            }
            // A volume in state `creating` or `deleting` causes this error too.
            ErrorClass::IncorrectState | ErrorClass::Ambiguous => Instant::now() + timeouts::SETTLE,
            _ => return Err(map_error(op, error)),
        };
        match after_failed_deletion(service, op, id, gone_from).await? {
            AfterRefusal::Deleting => break,
            AfterRefusal::Present if error.class == ErrorClass::IncorrectState => return Err(map_error(op, error)),
            AfterRefusal::Present | AfterRefusal::Retry if Instant::now() < op.deadline => {}
            AfterRefusal::Present | AfterRefusal::Retry => return Err(map_error(op, error).unproven()),
        }
    }
    service.context.recent.record_write(Write::Deletion(id.clone()));
    Ok(())
}

/// Describes until EC2 shows the deletion or describes are no longer stale. A describe without the volume proves its
/// deletion only from `gone_from` on.
async fn after_failed_deletion<E: Ec2>(
    service: &VolumeService<E>,
    op: &OpContext<'_>,
    id: &VolumeId,
    gone_from: Instant,
) -> Result<AfterRefusal> {
    let settled_at = Instant::now() + timeouts::SETTLE;
    let mut was_creating = false;
    let decide = |seen: Option<Volume>, sent: Instant| {
        let settled = sent >= settled_at;
        match seen.map(|v| v.state) {
            Some(VolumeState::Deleting | VolumeState::Deleted) => Verdict::Done(AfterRefusal::Deleting),
            Some(VolumeState::Creating) => {
                was_creating = true;
                Verdict::Waiting
            }
            Some(_) if was_creating => Verdict::Done(AfterRefusal::Retry),
            Some(_) if settled => Verdict::Done(AfterRefusal::Present),
            None if sent >= gone_from => Verdict::Done(AfterRefusal::Deleting),
            None | Some(_) => Verdict::Waiting,
        }
    };
    service.context.describer.await_volume(op, FirstPoll::Now, id, decide).await
}

//! DeleteVolume.

use ebs_ec2::{Ec2, ErrorClass, Volume, VolumeState, Volumes};
use ebs_types::{VolumeId, Waiters};
use tokio::time::Instant;

use super::service::VolumeService;
use crate::call::mutate;
use crate::describe::{FirstPoll, Verdict};
use crate::lease_terms::Sidecar;
use crate::op::Op;
use crate::recent_writes::Write;
use crate::refused::refused;
use crate::{CloudError, Object, bounds};

/// The result of the describes after a refusal or a lost answer.
enum Found {
    /// The volume is gone or being deleted, which is irreversible.
    Deleting,
    /// The volume exists and could be deleted.
    Present,
    /// The obstacle is gone.
    Retry,
}

impl<E: Ec2> VolumeService<E> {
    /// Deletes the volume, unless it is being deleted or does not exist. "Does not exist" is a success only at a time
    /// when neither EC2's error nor its describes can show the time before the creation.
    ///
    /// # Errors
    /// `CloudErrorKind::FailedPrecondition` while the volume is attached.
    pub async fn delete(&self, id: &VolumeId, waiters: &Waiters) -> Result<(), CloudError> {
        let op = Op::start(format!("delete volume {id}"), bounds::DELETE, waiters);
        self.context.recent.serve(Sidecar::Provisioner, waiters, self.delete_within(&op, id)).await
    }

    pub(super) async fn delete_within(&self, op: &Op<'_>, id: &VolumeId) -> Result<(), CloudError> {
        loop {
            let asked = Instant::now();
            let ec2 = self.context.for_mutation(op);
            let error = match mutate(op, || ec2.delete_volume(id)).await? {
                Ok(()) => break,
                Err(e) => e,
            };
            let gone_from = match error.class {
                ErrorClass::MalformedId => break,
                ErrorClass::VolumeNotFound if self.context.recent.is_recent(&Write::Deletion(id.clone())) => break,
                // This is as stale as a describe: it may be from before the creation.
                ErrorClass::VolumeNotFound => {
                    let gone_from = self.context.recent.gone_from(&Object::Volume(id.clone()), Sidecar::Provisioner);
                    if asked >= gone_from {
                        break;
                    }
                    gone_from
                }
                // `creating` and `deleting` are such states.
                ErrorClass::IncorrectState | ErrorClass::Ambiguous => Instant::now() + bounds::SETTLE,
                _ => return Err(refused(op, error)),
            };
            match self.after_failed_deletion(op, id, gone_from).await? {
                Found::Deleting => break,
                Found::Present if error.class == ErrorClass::IncorrectState => return Err(refused(op, error)),
                Found::Present | Found::Retry if Instant::now() < op.deadline => {}
                Found::Present | Found::Retry => return Err(refused(op, error).unproven()),
            }
        }
        self.context.recent.note(Write::Deletion(id.clone()));
        Ok(())
    }

    /// Describes until EC2 shows the deletion, or until describes are no longer stale. An empty describe is a proof if
    /// it was sent at `gone_from` or later.
    async fn after_failed_deletion(&self, op: &Op<'_>, id: &VolumeId, gone_from: Instant) -> Result<Found, CloudError> {
        let settled_at = Instant::now() + bounds::SETTLE;
        let mut was_creating = false;
        let decide = |seen: Option<Volume>, sent: Instant| {
            let settled = sent >= settled_at;
            match seen.map(|v| v.state) {
                Some(VolumeState::Deleting | VolumeState::Deleted) => Verdict::Done(Found::Deleting),
                Some(VolumeState::Creating) => {
                    was_creating = true;
                    Verdict::Waiting
                }
                Some(_) if was_creating => Verdict::Done(Found::Retry),
                Some(_) if settled => Verdict::Done(Found::Present),
                None if sent >= gone_from => Verdict::Done(Found::Deleting),
                None | Some(_) => Verdict::Waiting,
            }
        };
        self.context.waiter.volume(op, FirstPoll::Now, id, decide).await
    }
}

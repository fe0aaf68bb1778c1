//! Detaching a volume from a node. The driver never forces a detach, and reports it done only with the proof that
//! [`super::proof`] defines.
//!
//! Decision: `docs/decisions/0007-report-detached-only-with-proof.md`.

use std::time::SystemTime;

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Volume};
use ebs_types::{NodeId, VolumeId, Waiters};
use tokio::time::Instant;

use super::detach_call::{DetachProgress, MIN_WAIT_FOR_SPARE_CALL, SpareCall, already_detaching};
use super::node_attachment::{NodeAttachment, node_attachment};
use super::pairs::Pair;
use super::proof::{believed_by_age, is_attachable, is_same, says_not_attached};
use super::service::AttachmentService;
use crate::describe::{FirstPoll, Verdict};
use crate::lease_terms::Sidecar;
use crate::op::Op;
use crate::{CloudError, CloudErrorKind, bounds};

/// DetachVolume calls per operation. EC2 rarely lists an attachment again after it accepted a detach.
const MAX_DETACH_CALLS: u32 = 3;

enum End {
    Gone,
    /// EC2 lists an attachment that is not detaching, in a describe that would show the detach.
    StillAttached,
    /// EC2 lists nothing, which is not a proof yet.
    Unlisted,
}

impl<E: Ec2> AttachmentService<E> {
    /// Detaches the volume from the node and waits for the proof. Never forces the detach.
    ///
    /// # Errors
    /// `CloudErrorKind::InProgress` when the device stays busy.
    pub async fn detach(&self, volume: &VolumeId, node: &NodeId, waiters: &Waiters) -> Result<(), CloudError> {
        let pair = Pair { volume: volume.clone(), node: node.clone() };
        let op = Op::start(format!("detach {volume} from {node}"), bounds::DETACH, waiters);
        self.context.recent.serve(Sidecar::Attacher, waiters, self.detach_within(op, pair)).await
    }

    async fn detach_within(&self, op: Op<'_>, pair: Pair) -> Result<(), CloudError> {
        op.still_wanted()?;
        // EC2 may still carry out an AttachVolume of the previous leader.
        let mut late_attach = self.late_attach_until(&pair);
        if let Some(settled) = self.pairs.unclear_until(&pair) {
            // EC2 may still carry out the AttachVolume of this process.
            op.sleep_until(settled).await?;
        }
        let mut progress = match self.pairs.detaching_since(&pair) {
            Some(since) => already_detaching(since),
            None => self.call_detach(&op, &pair).await?,
        };
        loop {
            // "Not attached" needs no further proof if the loop calls EC2 again anyway.
            if late_attach.is_none() || !progress.refusal.as_ref().is_some_and(is_attachable) {
                self.await_detached(&op, &pair, progress).await?;
            }
            let Some(until) = late_attach.take() else { break };
            op.sleep_until(until).await?;
            progress = self.call_detach(&op, &pair).await?;
        }
        self.pending_detaches.ended(&pair);
        self.pairs.gone(&pair);
        self.devices.release(pair.node.instance(), &pair.volume);
        self.instances.take_out(pair.node.instance(), &pair.volume);
        Ok(())
    }

    async fn await_detached(&self, op: &Op<'_>, pair: &Pair, mut progress: DetachProgress) -> Result<(), CloudError> {
        let mut calls = 1;
        loop {
            match (self.await_end(op, pair, &progress).await?, progress.refusal.take()) {
                (End::Gone, _) => return Ok(()),
                (End::Unlisted, _) => {
                    progress.may_ask = false;
                    progress.first = FirstPoll::Now;
                    match self.spare_detach(op, pair).await? {
                        SpareCall::Gone => return Ok(()),
                        SpareCall::Inconclusive => {}
                        SpareCall::Detaching(next) => {
                            (progress, calls) = (DetachProgress { may_ask: false, ..next }, calls + 1)
                        }
                    }
                }
                (End::StillAttached, Some(error)) if calls >= MAX_DETACH_CALLS || !says_not_attached(&error) => {
                    return Err(still_listed(op, error));
                }
                (End::StillAttached, None) if calls >= MAX_DETACH_CALLS => return Err(reappears(op)),
                // The attachment reappeared, or EC2 refused a detach as not attached and lists it: the refusal was
                // stale.
                (End::StillAttached, _) => {
                    calls += 1;
                    progress = self.call_detach(op, pair).await?;
                }
            }
        }
    }

    /// Returns until when EC2 may still carry out an AttachVolume of another process, even after it reported that
    /// nothing is attached. Returns `None` if this process made the attachment itself while it was the only leader.
    fn late_attach_until(&self, pair: &Pair) -> Option<Instant> {
        let alone_since = self.context.recent.term_began(Sidecar::Attacher);
        let is_ours = self.pairs.last_known(pair).is_some_and(|known| known.is_sure && known.at >= alone_since);
        Some(self.context.recent.sole_from(Sidecar::Attacher)).filter(|until| !is_ours && *until > Instant::now())
    }

    /// Waits for the proof that nothing is attached, or for a sign that the DetachVolume did not end the attachment.
    async fn await_end(&self, op: &Op<'_>, pair: &Pair, progress: &DetachProgress) -> Result<End, CloudError> {
        let mut believed_from = progress.believed_from;
        let known = self.pairs.last_known(pair).and_then(|known| known.attach_time);
        let decide = |seen: Option<Volume>, sent: Instant| {
            let now = Instant::now();
            let node_attachment =
                seen.as_ref().map_or(NodeAttachment::Absent, |volume| node_attachment(volume, &pair.node));
            if let Some(attachment) = node_attachment.listed() {
                self.pending_detaches.still(pair, &attachment.state);
            }
            match node_attachment {
                NodeAttachment::Absent if sent >= believed_from => return Verdict::Done(End::Gone),
                NodeAttachment::Absent if progress.may_ask && believed_from > now + MIN_WAIT_FOR_SPARE_CALL => {
                    return Verdict::Done(End::Unlisted);
                }
                NodeAttachment::Attached(_) | NodeAttachment::Attaching(_)
                    if sent >= progress.answer_shows_from && !progress.instance_ends =>
                {
                    return Verdict::Done(End::StillAttached);
                }
                NodeAttachment::Detaching(a) if progress.learns_age => {
                    let is_it = known.is_none() || is_same(known, a.attach_time);
                    if let Some(from) = believed_by_age(now, &a, self.context.clock.now()).filter(|_| is_it) {
                        believed_from = believed_from.min(from);
                    }
                }
                NodeAttachment::Absent
                | NodeAttachment::Detaching(_)
                | NodeAttachment::Attached(_)
                | NodeAttachment::Attaching(_) => {}
            }
            Verdict::Waiting
        };
        let ended = self.context.waiter.volume(op, progress.first, &pair.volume, decide).await;
        ended.map_err(|error| match error.kind {
            CloudErrorKind::InProgress => {
                let busy_for = self.pending_detaches.busy_since(pair).map(|since| since.elapsed());
                let busy_since = busy_for.map(|time| self.context.clock.now() - time);
                let message = with_busy(error.message, busy_since);
                match &progress.refusal {
                    Some(refusal) if progress.instance_ends => instance_has_not_ended(message, refusal),
                    _ => CloudError { message, ..error },
                }
            }
            _ => error,
        })
    }
}

/// EC2 refused to detach an attachment that it still lists.
fn still_listed(op: &Op<'_>, error: Ec2Error) -> CloudError {
    let message = format!("{op}: EC2 rejects the call but still lists the attachment; try again");
    let kind = match error.class {
        ErrorClass::Ambiguous => CloudErrorKind::OutcomeUnknown,
        _ => CloudErrorKind::FailedPrecondition,
    };
    kind.error(message).caused_by(error)
}

fn instance_has_not_ended(message: String, refusal: &Ec2Error) -> CloudError {
    let message = format!(
        "{message}; EC2 does not detach volumes from the instance in its current state, the attachment ends with the \
         instance"
    );
    CloudErrorKind::InProgress.error(message).caused_by(refusal.clone())
}

fn reappears(op: &Op<'_>) -> CloudError {
    let message = format!("{op}: EC2 accepted the call but still lists the attachment; try again");
    CloudErrorKind::InProgress.error(message)
}

fn with_busy(message: String, busy_since: Option<SystemTime>) -> String {
    match busy_since {
        None => message,
        Some(since) => format!(
            "{message}; unmount the device on the instance, which has kept it busy since {}",
            humantime::format_rfc3339_seconds(since)
        ),
    }
}
